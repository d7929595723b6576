import assert from 'node:assert/strict';
import { it } from 'node:test';
import { answerId, GatehouseError, type Incoming } from '../../src/client/index.ts';
import { eventually, person } from '../support/gateway.ts';
import { cli, during, node, shout, twoPeople } from './support.ts';

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

it('handles several at once, those of one session one after the other', async (t) => {
  const { joel, ana } = await twoPeople(t);
  const first = await joel.send({ from: cli, to: shout, text: 'a1' });
  await joel.send({ from: cli, to: shout, text: 'a2', thread: first.thread });
  await joel.send({ from: cli, to: shout, text: 'b1' });
  const log: string[] = [];
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  during(t, (signal) =>
    ana.listen(
      shout,
      async ({ text }) => {
        log.push(`${text} begins`);
        if (text === 'a1') await held;
        log.push(`${text} ends`);
      },
      { signal, concurrency: 3 },
    ),
  );
  await eventually('b1 passes', async () => log.includes('b1 ends'));
  assert.ok(!log.includes('a2 begins'), log.join());
  release();
  await eventually('all', async () => log.includes('a2 ends'));
  assert.ok(log.indexOf('a1 ends') < log.indexOf('a2 begins'));
});

it('a handler that throws, or an answer that cannot be sent, is an error reply', async (t) => {
  const { joel, ana } = await twoPeople(t);
  during(t, (signal) =>
    ana.listen(
      shout,
      ({ text }) => {
        if (text === 'throw') throw new Error('the ledger is closed');
        return 'x'.repeat(70_000);
      },
      { signal },
    ),
  );
  const thrown = await joel.sendAndWait({ from: cli, to: shout, text: 'throw' });
  assert.deepEqual([thrown.envelope.error, thrown.text, thrown.sealed], [true, 'the ledger is closed', true]);
  const large = await joel.sendAndWait({ from: cli, to: shout, text: 'large' });
  assert.equal(large.envelope.error, true);
  assert.match(large.text, /could not be sent: .*64 KB/);
});

it('answers once when the answer to the answer is lost, and when the lease ends under the handler', async (t) => {
  const { gateway, joel, anaToken } = await twoPeople(t);
  let lost = 0;
  const losing: typeof fetch = async (url, init) => {
    const response = await fetch(url, init);
    const isReply = init?.method === 'POST' && String(init.body).includes('"kind":"reply"');
    if (!isReply || lost > 0) return response;
    lost += 1;
    throw new TypeError('fetch failed');
  };
  const ana = await node(gateway, anaToken, { fetch: losing, retries: { baseMs: 20 } });
  await ana.announce(shout);
  let runs = 0;
  during(t, (signal) =>
    ana.listen(
      shout,
      async () => {
        runs += 1;
        await pause(2_500);
        return `run ${runs}`;
      },
      { signal, lease: 1, concurrency: 2 },
    ),
  );
  const reply = await joel.sendAndWait({ from: cli, to: shout, text: 'once' });
  assert.equal(reply.text, 'run 1');
  assert.deepEqual([lost, runs], [1, 1]);
  const { messages } = await joel.call<{ messages: Array<{ kind: string }> }>(
    'GET',
    `/threads/${reply.envelope.thread}`,
  );
  assert.deepEqual(messages.map(({ kind }) => kind).sort(), ['reply', 'request']);
});

it('goes on when the gateway comes back, and keeps the answer that it had made', async (t) => {
  const { gateway, joel, anaToken } = await twoPeople(t);
  let away = false;
  const cut: typeof fetch = (url, init) => (away ? Promise.reject(new TypeError('fetch failed')) : fetch(url, init));
  const ana = await node(gateway, anaToken, { fetch: cut, retries: { tries: 2, baseMs: 10 } });
  await ana.announce(shout);
  const faults: unknown[] = [];
  let runs = 0;
  during(t, (signal) =>
    ana.listen(
      shout,
      async ({ text }) => {
        runs += 1;
        away = true;
        setTimeout(() => {
          away = false;
        }, 700);
        return text;
      },
      { signal, onFault: (fault) => faults.push(fault) },
    ),
  );
  const reply = await joel.sendAndWait({ from: cli, to: shout, text: 'still here' });
  assert.equal(reply.text, 'still here');
  assert.equal(runs, 1);
  assert.ok(faults.length > 0);
});

it('two senders that chose the same id are both answered', async (t) => {
  const { gateway, joel, ana } = await twoPeople(t);
  const { token } = await person(gateway, 'eve');
  const eve = await node(gateway, token);
  await eve.announce('acme/general/eve/cli');
  during(t, (signal) => ana.listen(shout, ({ envelope }) => `for ${envelope.from}`, { signal }));
  const [one, two] = await Promise.all([
    joel.sendAndWait({ from: cli, to: shout, text: '?', id: 'm1' }, { timeout: 20 }),
    eve.sendAndWait({ from: 'acme/general/eve/cli', to: shout, text: '?', id: 'm1' }, { timeout: 20 }),
  ]);
  assert.equal(one.text, `for ${cli}`);
  assert.equal(two.text, 'for acme/general/eve/cli');
  assert.notEqual(answerId({ id: 'm1', from: cli }), answerId({ id: 'm1', from: 'acme/general/eve/cli' }));
});

it('an agent that listens and asks at the same time gets its own answers', async (t) => {
  const { joel, ana } = await twoPeople(t);
  during(t, (signal) => ana.listen(shout, ({ text }) => text.toUpperCase(), { signal, concurrency: 2 }));
  during(t, (signal) =>
    joel.listen(
      cli,
      async ({ text }) => (await joel.sendAndWait({ from: cli, to: shout, text }, { timeout: 20 })).text,
      { signal, concurrency: 2 },
    ),
  );
  for (const text of ['a', 'b', 'c']) {
    const reply = await ana.sendAndWait({ from: shout, to: cli, text }, { timeout: 20 });
    assert.equal(reply.text, text.toUpperCase());
  }
});

it('an answer that the listener is handed goes to who waits for it', async (t) => {
  const { gateway, ana } = await twoPeople(t);
  // Whoever waits never gets to take: the listener is always first.
  const slow: typeof fetch = (url, init) =>
    String(url).includes('reply_to=')
      ? new Promise((_, reject) => init?.signal?.addEventListener('abort', () => reject(init.signal?.reason)))
      : fetch(url, init);
  const joel = await node(gateway, gateway.token, { fetch: slow });
  await joel.announce(cli);
  const told: string[] = [];
  const strays: string[] = [];
  const shouting = async ({ text, progress }: Incoming): Promise<string> => {
    await progress('soon');
    return text.toUpperCase();
  };
  during(t, (signal) => ana.listen(shout, shouting, { signal }));
  during(t, (signal) => joel.listen(cli, () => undefined, { signal, onAnswer: ({ text }) => strays.push(text) }));
  const onProgress = ({ text }: { text: string }): void => void told.push(text);
  const reply = await joel.sendAndWait({ from: cli, to: shout, text: 'mine' }, { onProgress, timeout: 20 });
  assert.equal(reply.text, 'MINE');
  assert.deepEqual([told, strays], [['soon'], []]);
  await joel.send({ from: cli, to: shout, text: 'nobody waits' });
  await eventually('it is told as one that nobody waits for', async () => strays.includes('NOBODY WAITS'));
});

it('stops when told to: what is under way is answered, nothing more is taken', async (t) => {
  const { joel, ana } = await twoPeople(t);
  const stop = new AbortController();
  let taken: Incoming | undefined;
  const listening = ana.listen(
    shout,
    async (incoming) => {
      taken ??= incoming;
      await pause(300);
      return 'done';
    },
    { signal: stop.signal },
  );
  const sent = await joel.send({ from: cli, to: shout, text: 'one' });
  await eventually('taken', async () => taken);
  stop.abort();
  const second = await joel.send({ from: cli, to: shout, text: 'two' });
  await listening;
  assert.equal((await joel.waitFor(sent.id, { from: cli }, { timeout: 5 })).text, 'done');
  const left = await ana.take(shout);
  assert.deepEqual(
    left.map(({ id }) => id),
    [second.id],
  );
});

it('ends with the refusal when the token is revoked', async (t) => {
  const { gateway, anaToken } = await twoPeople(t);
  const ana = await node(gateway, anaToken);
  await ana.announce(shout);
  const joel = await node(gateway, gateway.token, { seal: false });
  await joel.send({ from: cli, to: shout, text: 'the last one' });
  const { nodes } = await ana.call<{ nodes: Array<{ id: string; current: boolean }> }>('GET', '/nodes');
  const own = nodes.find(({ current }) => current)!;
  const faults: unknown[] = [];
  const listening = ana.listen(
    shout,
    async () => void (await gateway.call('DELETE', `/redsyn/v1/nodes/${own.id}`, { token: anaToken })),
    { onFault: (fault) => faults.push(fault) },
  );
  const fault = await listening.catch((error: unknown) => error);
  assert.ok(fault instanceof GatehouseError);
  assert.equal(fault.status, 401);
  assert.equal(faults.length, 1, 'and the confirmation that was refused is told');
});

it('sendAndWait finds an answer that another process took, in the thread', async (t) => {
  const { joel, ana } = await twoPeople(t);
  const sent = await joel.send({ from: cli, to: shout, text: 'x' });
  const [request] = await ana.take(shout);
  await ana.reply(request!, 'the answer');
  const taken = await joel.take(cli, { replyTo: sent.id });
  await joel.ack(
    cli,
    taken.map(({ id }) => id),
  );
  const reply = await joel.waitFor(sent.id, { from: cli, thread: sent.thread }, { timeout: 0 });
  assert.deepEqual([reply.text, reply.sealed, reply.verified], ['the answer', true, true]);
});

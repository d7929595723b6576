import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { type Client, hopsOf } from '../../src/client/index.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import { type Called, eventually, person, type TestGateway } from '../support/gateway.ts';
import { billing, linkedPair, reviewer } from '../support/pair.ts';

const clock = new ManualClock(Date.now());
const { acme, globex } = await linkedPair({ after }, { acme: { clock }, globex: { clock } });
const ana = await person(acme, 'ana');
const helper = 'acme/dev/joel/helper';
await acme.admin.announce(helper, { allow: ['org'] });
await acme.admin.announce(reviewer, { allow: ['org', 'org:globex'] });
await acme.admin.call('PUT', '/orgs/acme/links/globex/expose', {
  kind: 'agent',
  pattern: 'dev/joel/reviewer',
  on: true,
});
await eventually('globex sees the reviewer', async () => {
  const { links } = await globex.admin.call<{ links: Array<{ exposed: unknown[] }> }>('GET', '/links');
  return links[0]?.exposed.length === 1;
});

let count = 0;
const name = (): string => `a${++count}`;

interface Limit {
  agent: string;
  peer: string | null;
  yours: boolean;
  state: string;
  paused_for?: string;
  used: Record<string, number>;
}
const limitsOf = async (gateway: TestGateway, token = gateway.token): Promise<Limit[]> =>
  (await gateway.call('GET', '/api/v1/limits', { token })).json.limits;
const pausedOf = async (gateway: TestGateway, token = gateway.token): Promise<Limit[]> =>
  (await limitsOf(gateway, token)).filter(({ state }) => state === 'paused');
const resume = (gateway: TestGateway, body: object, token = gateway.token): Promise<Called> =>
  gateway.call('POST', '/api/v1/limits/resume', { token, body });

/** Takes what came and asks the next one, in a conversation of its own, as a program does that thinks of nothing. */
async function forward(client: Client, at: string, to: string): Promise<'asked' | 'refused' | 'idle'> {
  const [taken] = await client.take(at, { lease: 60 });
  if (!taken) return 'idle';
  await client.ack(at, [taken.id]);
  if (taken.kind !== 'request') return 'idle';
  const sent = await client
    .send({ from: at, to, text: taken.body.text ?? '' })
    .catch((fault: { code?: string }) => fault);
  if ('thread' in sent) return 'asked';
  assert.equal(sent.code, 'loop_detected');
  return 'refused';
}

/** Every chain is over. */
const calm = (): void => clock.advance(41_000);

describe('loops (FED-02, design §4)', () => {
  it('FED-02: three auto-answering agents in a triangle across two gateways come to rest, and both owners see it', async () => {
    await acme.admin.send({ from: reviewer, to: helper, text: 'pass it on' });
    let rounds = 0;
    let asked = 0;
    for (let idle = 0; idle < 4; rounds++) {
      assert.ok(rounds < 200, 'the triangle does not come to rest');
      const went = [
        await forward(acme.admin, helper, billing),
        await forward(globex.admin, billing, reviewer),
        await forward(acme.admin, reviewer, helper),
      ];
      asked += went.filter((each) => each === 'asked').length;
      idle = went.includes('asked') ? 0 : idle + 1;
    }
    assert.ok(asked >= 15 && asked <= 25, `${asked} requests were passed on`);
    const [here, there] = [await pausedOf(acme), await pausedOf(globex)];
    assert.ok(here.length + there.length >= 1);
    assert.ok([...here, ...there].every(({ paused_for }) => paused_for === 'turns'));
    // Whichever pair it was: its two owners are joel and, where it crossed, bob.
    for (const { peer } of here) {
      if (peer?.startsWith('did:web:localhost')) assert.ok(there.length > 0, 'the other owner sees it too');
    }
    for (const { agent, peer } of [...here]) assert.equal((await resume(acme, { agent, peer })).json.resumed, true);
    for (const { agent, peer } of [...there]) assert.equal((await resume(globex, { agent, peer })).json.resumed, true);
    calm();
  });

  it('FED-02: a pair across two gateways is paused on both sides', async () => {
    await acme.admin.send({ from: reviewer, to: billing, text: 'ping' });
    for (let rounds = 0, idle = 0; idle < 4; rounds++) {
      assert.ok(rounds < 200, 'the pair does not come to rest');
      const went = [await forward(globex.admin, billing, reviewer), await forward(acme.admin, reviewer, billing)];
      idle = went.includes('asked') ? 0 : idle + 1;
    }
    const pair = ({ agent }: Limit): boolean => agent === reviewer || agent === billing;
    const [here, there] = [(await pausedOf(acme)).filter(pair), (await pausedOf(globex)).filter(pair)];
    assert.deepEqual([here.length, there.length], [1, 1], JSON.stringify({ here, there }));
    // An error reply, which a person has to look at, is all that is left.
    const refused = await acme.admin.send({ from: reviewer, to: billing, text: 'again' }).catch((fault) => fault);
    assert.equal(refused.code, 'loop_detected');
    assert.equal(refused.data.gate, 'limits');
    await resume(acme, here[0]!);
    await resume(globex, there[0]!);
    calm();
    assert.ok(await acme.admin.send({ from: reviewer, to: billing, text: 'a person asks' }));
    calm();
  });

  it('FED-02: an agent that writes to itself, and 20 polite acknowledgements', async () => {
    const self = `acme/dev/joel/${name()}`;
    await acme.admin.announce(self);
    const again = async (): Promise<string> => {
      const sent = await acme.admin.send({ from: self, to: self, text: 'note' }).catch((fault) => fault.code);
      return typeof sent === 'string' ? sent : 'sent';
    };
    const notes = [];
    for (let i = 0; i < 102; i++) notes.push(await again());
    assert.deepEqual([notes.indexOf('loop_detected'), notes.at(-1)], [100, 'loop_detected']);

    const [a, b] = [`acme/dev/joel/${name()}`, `acme/general/ana/${name()}`];
    await acme.admin.announce(a, { allow: ['org'] });
    await ana.announce(b, { allow: ['org'] });
    const acks: string[] = [];
    for (let i = 0; i < 24; i++) {
      const [client, from, to] = i % 2 === 0 ? ([acme.admin, a, b] as const) : ([ana, b, a] as const);
      const sent = await client.send({ from, to, text: 'Thank you!' }).catch((fault) => fault.code);
      acks.push(typeof sent === 'string' ? sent : 'sent');
    }
    assert.equal(acks.indexOf('loop_detected'), 20);
    assert.equal(acks.at(-1), 'loop_detected');
    const mine = (limits: Limit[]): Limit[] => limits.filter(({ agent }) => agent === a || agent === b);
    const [joels, anas] = [mine(await pausedOf(acme)), mine(await pausedOf(acme, ana.token))];
    assert.deepEqual([joels.length > 0, anas.length > 0], [true, true], 'both owners see it');
    assert.notEqual(joels[0]!.yours, anas[0]!.yours);
  });

  it('who asks and is not asked, at any speed, is in no loop; nor are two who take their time', async () => {
    const [a, b] = [`acme/dev/joel/${name()}`, `acme/general/ana/${name()}`];
    await acme.admin.announce(a, { allow: ['org'] });
    await ana.announce(b, { allow: ['org'] });
    for (let i = 0; i < 26; i++) await acme.admin.send({ from: a, to: b, text: 'x' });
    for (let i = 0; i < 26; i++) {
      clock.advance(2_000);
      await (i % 2 === 0 ? ana.send({ from: b, to: a, text: 'x' }) : acme.admin.send({ from: a, to: b, text: 'x' }));
    }
  });

  it('what a message says it came through: at most eight agents, and its addressee once', async () => {
    const send = (hops: unknown): Promise<Called> =>
      acme.call('POST', '/redsyn/v1/messages', {
        body: { v: 1, kind: 'request', from: reviewer, to: helper, hops, body: { type: 'text/plain', text: 'x' } },
      });
    const many = (n: number): string[] => Array.from({ length: n }, (_, i) => `acme/dev/joel/h${i}`);
    assert.equal((await send(many(8))).status, 201);
    const nine = await send(many(9));
    assert.deepEqual([nine.status, nine.json.code, nine.json.gate], [403, 'loop_detected', 'limits']);
    assert.equal((await send([helper, reviewer])).status, 201, 'it may be asked again');
    assert.equal((await send([helper, reviewer, helper, reviewer])).json.code, 'loop_detected');
    for (const wrong of ['x', [1], ['x'.repeat(1_001)]]) assert.equal((await send(wrong)).json.field, 'hops');
  });

  it('`because` of the client carries it on across gateways', async () => {
    const sent = await acme.admin.send({ from: reviewer, to: helper, text: 'first' });
    const taken = await eventually('it came', async () =>
      (await acme.admin.take(helper, { lease: 60 })).find(({ id }) => id === sent.id),
    );
    assert.deepEqual(hopsOf(taken), [reviewer]);
    const next = await acme.admin.send({ from: helper, to: billing, text: 'on', because: taken });
    const there = await eventually('it came there', async () =>
      (await globex.admin.take(billing, { lease: 60 })).find(({ id }) => id === next.id),
    );
    assert.deepEqual(there.hops, [reviewer]);
    calm();
  });

  it('progress, error replies and replies cannot be answered, and start nothing', async () => {
    const sent = await acme.admin.send({ from: reviewer, to: helper, text: 'do it' });
    const request = await eventually('it came', async () =>
      (await acme.admin.take(helper, { lease: 60 })).find(({ id }) => id === sent.id),
    );
    await acme.admin.progress(request, 'half of it');
    await acme.admin.reply(request, { body: { type: 'text/plain', text: 'no' }, error: true });
    const told = await eventually('both came', async () => {
      const items = await acme.admin.take(reviewer, { max: 50, lease: 1 });
      const own = items.filter(({ reply_to }) => reply_to === sent.id);
      clock.advance(1_000);
      return own.length === 2 && own;
    });
    for (const answer of told) {
      const back = await acme.call('POST', '/redsyn/v1/messages', {
        body: {
          v: 1,
          kind: 'reply',
          from: reviewer,
          reply_to: answer.id,
          body: { type: 'text/plain', text: 'thanks' },
        },
      });
      assert.equal(back.status, 404, answer.kind);
    }
  });

  it('a clock that jumps, either way, empties the chain and never extends it', async () => {
    const self = `acme/dev/joel/${name()}`;
    await acme.admin.announce(self);
    const write = (): Promise<Called> =>
      acme.call('POST', '/redsyn/v1/messages', {
        body: { v: 1, kind: 'request', from: self, to: self, body: { type: 'text/plain', text: 'note' } },
      });
    const start = clock.now();
    for (const at of [start, start + 3_600_000, start, start - 3_600_000, start]) {
      clock.jump(at);
      for (let i = 0; i < 60; i++) assert.equal((await write()).status, 201);
    }
  });
});

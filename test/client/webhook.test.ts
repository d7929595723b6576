import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { it } from 'node:test';
import { type DeliveredEnvelope, verifyWebhook } from '../../src/client/index.ts';
import { eventually } from '../support/gateway.ts';
import { cli, shout, twoPeople } from './support.ts';

it('an agent that is a server: verifies what is pushed, answers, and goes back to its inbox', async (t) => {
  const { joel, ana } = await twoPeople(t);
  let secret = '';
  const judged: boolean[] = [];
  const server = createServer(async (request, response) => {
    const body = await buffer(request);
    const genuine = verifyWebhook(request.headers, body, secret);
    judged.push(genuine, verifyWebhook(request.headers, `${body} `, secret));
    response.writeHead(genuine ? 204 : 401).end();
    if (!genuine) return;
    const received = await ana.receive(JSON.parse(body.toString()) as DeliveredEnvelope);
    await ana.reply(received, `${received.text.toUpperCase()} ${received.verified}`);
  });
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
  t.after(() => server.closeAllConnections());
  t.after(() => server.close());

  secret = await ana.setWebhook(shout, `http://localhost:${(server.address() as AddressInfo).port}/redsyn`);
  assert.ok(secret.length >= 16);
  assert.equal(await joel.agentKey(shout), undefined, 'a webhook has no key (REDSYN "Cifrado de extremo a extremo")');
  const reply = await joel.sendAndWait({ from: cli, to: shout, text: 'pushed' });
  assert.equal(reply.text, 'PUSHED true');
  assert.deepEqual(judged, [true, false]);

  await ana.removeWebhook(shout);
  await ana.announce(shout);
  const sent = await joel.send({ from: cli, to: shout, text: 'taken' });
  assert.equal(sent.sealed, true);
  const items = await eventually('it waits in the inbox', async () => {
    const found = await ana.take(shout);
    return found.length > 0 && found;
  });
  assert.equal(items[0]?.id, sent.id);
});

it('files: sealed with the message, checked, and fetched before the answer is confirmed', async (t) => {
  const { joel, ana } = await twoPeople(t);
  // The smallest zip: an empty central directory.
  const zip = Buffer.concat([Buffer.from('PK\u0005\u0006'), Buffer.alloc(18)]);
  const stop = new AbortController();
  const listening = ana.listen(
    shout,
    async ({ files, envelope }) => {
      const got = await files();
      return { body: { type: 'text/plain', text: `${got?.equals(zip)} ${envelope.files?.bytes}` }, files: zip };
    },
    { signal: stop.signal },
  );
  t.after(() => stop.abort());
  const reply = await joel.sendAndWait({ from: cli, to: shout, text: 'see', files: zip });
  assert.equal(reply.text, `true ${zip.length + 16}`);
  assert.ok((await reply.files())?.equals(zip));
  // Meanwhile confirmed, so that the gateway has it no more.
  await assert.rejects(joel.files(reply.envelope));
  const plain = await joel.sendAndWait({ from: cli, to: shout, text: 'see', files: zip, plain: true });
  assert.equal(plain.text, `true ${zip.length}`);
  assert.ok((await plain.files())?.equals(zip));
  stop.abort();
  await listening;
});

it('topics, sessions and withdrawing', async (t) => {
  const { joel, ana } = await twoPeople(t);
  await ana.subscribe('topic:acme/general/news', shout);
  assert.deepEqual(
    (await joel.topics()).map(({ topic, agents }) => [topic, agents]),
    [['topic:acme/general/news', [shout]]],
  );
  await joel.publish('topic:acme/general/news', { from: cli, data: { price: 7 } });
  const stop = new AbortController();
  const heard = await new Promise<{ text: string; topic: unknown; verified: boolean }>((resolve, reject) => {
    ana
      .listen(shout, ({ text, envelope, verified }) => void resolve({ text, topic: envelope.topic, verified }), {
        signal: stop.signal,
      })
      .catch(reject);
  });
  stop.abort();
  assert.deepEqual(heard, { text: '{"price":7}', topic: 'topic:acme/general/news', verified: true });
  await ana.unsubscribe('topic:acme/general/news', shout);

  const sent = await joel.send({ from: cli, to: `${shout}#new`, text: 'a' });
  const session = sent.to.split('#')[1]!;
  await ana.renameSession(shout, session, 'About a');
  const view = await ana.session<{ title: string; state: string }>(shout, session);
  assert.equal(view.title, 'About a');
  await joel.cancel(sent.id);
  await ana.closeSession(shout, session);
  await assert.rejects(joel.send({ from: cli, to: `${shout}#${session}`, text: 'b' }), /closed/);
  const [entry] = (
    await joel.directory<{ address: string; sessions: Array<{ id: string }> }>({ sessions: true })
  ).filter(({ address }) => address === shout);
  assert.ok(entry?.sessions.some(({ id }) => id === session));
});

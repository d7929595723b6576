import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import type { DeliveredEnvelope } from '../../src/client/index.ts';
import { eventually, team, testGateway } from '../support/gateway.ts';
import { type A2aServer, gate, startA2aServer } from './remote-server.ts';

const reviewer = 'acme/dev/joel/reviewer';
const acme = await testGateway({ after }, { org: 'acme', admin: 'joel' });
await team(acme, 'dev', ['joel']);
await acme.admin.announce(reviewer);

function ask(to: string, text = 'How are you?', more: object = {}) {
  return acme.admin.send({ from: reviewer, to, text, ...more });
}

/** All that comes of a request, its reply last. */
async function answersTo(id: string): Promise<DeliveredEnvelope[]> {
  const all: DeliveredEnvelope[] = [];
  await eventually(`the reply to ${id}`, async () => {
    all.push(...(await acme.admin.take(reviewer, { wait: 1, replyTo: id })));
    return all.some(({ kind }) => kind === 'reply');
  });
  await acme.admin.ack(
    reviewer,
    all.map((one) => one.id),
  );
  return all;
}

async function progressOf(id: string): Promise<DeliveredEnvelope> {
  return eventually(`progress of ${id}`, async () => (await acme.admin.take(reviewer, { wait: 1, replyTo: id }))[0]);
}

describe('a server that answers with a message', async () => {
  const server = await startA2aServer(
    { after },
    { brain: (turn) => turn.message([{ text: `You said: ${turn.text}` }]) },
  );

  for (const [name, to] of [
    ['its did:web', (s: A2aServer) => s.did],
    ['h/agents/u/agent', (s: A2aServer) => `${s.authority}/agents/eve/agent`],
    ['the URL of its card', (s: A2aServer) => s.cardUrl],
    ['the URL of the server', (s: A2aServer) => s.base],
  ] as const) {
    it(`closes the exchange at once: by ${name}`, async () => {
      const sent = await ask(to(server));
      const [reply, more] = await answersTo(sent.id);
      assert.equal(more, undefined);
      assert.equal(reply!.body.type, 'text/plain');
      assert.equal(reply!.body.text, 'You said: How are you?');
      assert.equal(reply!.thread, sent.thread);
      assert.equal(reply!.reply_to, sent.id);
      assert.equal(reply!.signed, false);
    });
  }

  it('the request is signed with the key of the owner', async () => {
    const { headers, body } = server.seen.find((one) => one.path === '/rpc')!;
    assert.match(String(headers['signature-input']), /keyid="did:web:localhost%3A\d+:agents:joel#key-1"/);
    assert.equal(headers['a2a-version'], '1.0');
    assert.equal(body.method, 'SendMessage');
    assert.deepEqual(body.params.configuration, { returnImmediately: true });
  });

  it('its card is fetched once in 60 s', () => {
    assert.equal(server.seen.filter(({ path }) => path === '/.well-known/agent-card.json').length, 1);
  });
});

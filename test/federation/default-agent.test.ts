import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { eventually } from '../support/gateway.ts';
import { billing, linkedPair, reviewer } from '../support/pair.ts';

const { acme, globex } = await linkedPair({ after });
const bob = `did:web:${globex.authority.replace(':', '%3A')}:agents:bob`;

describe("an owner's default agent behind a link answers under its own address", () => {
  for (const [name, to] of [
    ["the owner's DID", bob],
    ['the DID of her default agent', `${bob}:agent`],
    ['the address that stands for it', 'globex/agents/bob/agent'],
  ] as const) {
    it(name, async () => {
      const sent = await acme.admin.send({ from: reviewer, to, text: 'Is it paid?' });
      const [request] = await globex.admin.take(billing, { wait: 5 });
      assert.ok(request);
      await globex.admin.progress(request, 'looking');
      await globex.admin.reply(request, 'Yes.');
      const reply = await eventually('the reply', async () =>
        (await acme.admin.take(reviewer, { wait: 2, replyTo: sent.id })).find(({ kind }) => kind === 'reply'),
      );
      assert.equal(reply.body.text, 'Yes.');
      assert.match(reply.from, new RegExp(`^${billing}#s\\d+$`));
      const { rows } = await acme.database.db.query('select asked_addr from exchanges where request_id = $1', [
        sent.id,
      ]);
      assert.deepEqual(rows, [{ asked_addr: billing }]);
    });
  }

  it('an answer that comes before ours is recorded finds its request too, another owner never', async () => {
    const sent = await acme.admin.send({ from: reviewer, to: bob, text: 'Is it paid?' });
    await acme.database.db.query(`update exchanges set asked_addr = 'globex/agents/bob/agent' where request_id = $1`, [
      sent.id,
    ]);
    const [request] = await globex.admin.take(billing, { wait: 5 });
    await globex.admin.reply(request!, 'Yes.');
    await eventually('the reply', async () => (await acme.admin.take(reviewer, { wait: 2, replyTo: sent.id }))[0]);
  });
});

describe('a short `from` is refused where another gateway would have to place it', () => {
  const send = (from: string, to: string) =>
    acme.call('POST', '/redsyn/v1/messages', {
      body: { v: 1, kind: 'request', from, to, body: { type: 'text/plain', text: 'x' } },
    });

  it('towards a linked gateway', async () => {
    for (const from of ['reviewer', 'joel/reviewer', 'dev/joel/reviewer']) {
      const { status, json } = await send(from, billing);
      assert.deepEqual([status, json.code], [422, 'invalid_field'], from);
      assert.match(json.error, /full address/);
    }
  });

  it('within the instance it is read as ever', async () => {
    const { status, json } = await send('reviewer', reviewer);
    assert.equal(status, 201, JSON.stringify(json));
  });
});

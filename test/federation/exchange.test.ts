import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { verifyDelivered } from '../../src/identity/redsyn-seal.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { eventually } from '../support/gateway.ts';
import { billing, linkedPair, reviewer } from '../support/pair.ts';

const { acme, globex } = await linkedPair({ after });

describe('two companies exchange a signed request and its reply', () => {
  it('carries request, progress and reply, each verifiable without trust in either gateway', async () => {
    const sent = await acme.admin.send({ from: reviewer, to: billing, text: 'Is invoice 123 paid?' });
    assert.equal(sent.signed, true);
    assert.equal(sent.to, `${billing}#s1`);
    assert.equal(sent.thread, sent.id);

    const [request] = await globex.admin.take(billing, { wait: 5 });
    assert.ok(request);
    assert.equal(request.from, reviewer);
    assert.equal(request.body.text, 'Is invoice 123 paid?');
    assert.equal(request.signed, true);
    assert.notEqual(request.thread, sent.thread);
    assert.ok(!(verifyDelivered(request as never) instanceof Refusal));

    await globex.admin.progress(request, 'looking');
    await globex.admin.reply(request, 'Yes.');
    const items = await eventually('progress and reply', async () => {
      const found = await acme.admin.take(reviewer, { wait: 5, replyTo: sent.id });
      return found.some((item) => item.kind === 'reply') && found;
    });
    const reply = items.find((item) => item.kind === 'reply');
    assert.equal(reply?.body.text, 'Yes.');
    assert.equal(reply?.thread, sent.thread);
    assert.equal(reply?.from, `${billing}#s1`);
    assert.ok(!(verifyDelivered(reply as never) instanceof Refusal));
  });
});

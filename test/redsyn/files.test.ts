import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { connect } from 'node:net';
import { after, describe, it } from 'node:test';
import { type NodeKeys, nodeKeys } from '../../src/client/index.ts';
import { signEnvelope, verifyDelivered } from '../../src/identity/redsyn-seal.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { type Called, eventually, person, type TestGateway, testGateway } from '../support/gateway.ts';
import { billing, linkedPair, reviewer } from '../support/pair.ts';
import { smallZip, zipOf, zipOfSize } from '../support/zip.ts';

const MB = 1024 * 1024;
const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
let ids = 0;
const fresh = (name: string): string => `${name}-${++ids}`;

const acme = await testGateway({ after });
const [ana, eve] = [await person(acme, 'ana'), await person(acme, 'eve')];
const stranger = await testGateway({ after }, { org: 'other', admin: 'mallory' });
const pair = await linkedPair({ after });
const asker = 'acme/general/joel/asker';
const worker = 'acme/general/ana/worker';
await acme.admin.announce(asker);
await ana.announce(worker, { allow: ['org'] });

/** A node of the admin whose keys the test has. */
async function signer(gateway: TestGateway): Promise<{ token: string; keys: NodeKeys }> {
  const keys = nodeKeys();
  const { token } = await gateway.admin.call<{ token: string }>('POST', '/nodes', { name: 'signer' });
  await gateway.call('PUT', '/redsyn/v1/nodes/key', { token, body: keys.registration() });
  return { token, keys };
}

describe('files (REDSYN "El sobre", "Entrega", "Mensajes")', () => {
  const send = (more: Record<string, unknown>, token = acme.token): Promise<Called> =>
    acme.call('POST', '/redsyn/v1/messages', {
      token,
      body: {
        v: 1,
        id: fresh('m'),
        kind: 'request',
        from: asker,
        to: worker,
        body: { type: 'text/plain', text: 'see the zip' },
        ...more,
      },
    });
  const zipped = (zip: Buffer, more: Record<string, unknown> = {}) =>
    send({ files: { zip: zip.toString('base64') }, ...more });
  const fetchZip = (id: string, token = acme.token) => acme.call('GET', `/redsyn/v1/messages/${id}/files`, { token });
  const takeOne = async (id: string) => {
    const [item] = (await ana.take(worker, { wait: 5, max: 100 })).filter((each) => each.id === id);
    assert.ok(item, `${id} was taken`);
    return item;
  };

  it('a zip travels apart: delivered as its size and hash, fetched by both sides until the ack, then 410', async () => {
    const zip = smallZip();
    const sent = await zipped(zip, { id: fresh('apart') });
    assert.equal(sent.status, 201);
    const item = await takeOne(sent.json.id);
    assert.deepEqual(item.files, { bytes: zip.length, sha256: sha256(zip) });
    for (const token of [acme.token, ana.token, eve.token]) {
      const answer = await fetchZip(sent.json.id, token);
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(Buffer.from(answer.json.zip, 'base64'), zip);
      assert.equal(answer.headers.get('redsyn-version'), '2026-09-25');
    }
    await ana.ack(worker, [item.id]);
    const gone = await fetchZip(sent.json.id, ana.token);
    assert.equal(gone.status, 410);
    assert.match(gone.json.error, /delivered/);
    const { rows } = await acme.database.db.query('select 1 from message_files where id = $1 and zip is not null', [
      sent.json.id,
    ]);
    assert.equal(rows.length, 0);
  });

  it('a reply confirms its request, so its files go; the reply and progress may carry files of their own', async () => {
    const sent = await zipped(smallZip('question'));
    const request = await takeOne(sent.json.id);
    const answer = (kind: string, zip: Buffer, id: string) =>
      acme.call('POST', '/redsyn/v1/messages', {
        token: ana.token,
        body: {
          v: 1,
          id,
          kind,
          from: worker,
          reply_to: request.id,
          thread: request.thread,
          body: { type: 'text/plain', text: kind },
          files: { zip: zip.toString('base64') },
        },
      });
    const [progress, reply] = [smallZip('half'), smallZip('all')];
    const [progressId, replyId] = [fresh('p'), fresh('r')];
    assert.equal((await answer('progress', progress, progressId)).status, 201);
    assert.equal((await fetchZip(sent.json.id)).status, 200, 'progress closes nothing');
    assert.equal((await answer('reply', reply, replyId)).status, 201);
    assert.equal((await fetchZip(sent.json.id)).status, 410);
    const items = await acme.admin.take(asker, { replyTo: sent.json.id });
    assert.deepEqual(
      items.map((item) => [item.kind, (item.files as { sha256: string }).sha256]),
      [
        ['progress', sha256(progress)],
        ['reply', sha256(reply)],
      ],
    );
    assert.deepEqual(Buffer.from((await fetchZip(replyId, acme.token)).json.zip, 'base64'), reply);
    await acme.admin.ack(asker, [progressId, replyId]);
    assert.equal((await fetchZip(replyId, ana.token)).status, 410);
  });

  it('the signature covers the hash of the decoded zip: it verifies where it arrives, and another zip is refused', async () => {
    const { keys, token } = await signer(acme);
    const envelope = {
      v: 1,
      id: fresh('signed'),
      kind: 'request',
      from: asker,
      to: worker,
      ts: Math.floor(Date.now() / 1000),
      body: { type: 'text/plain', text: 'signed' },
      files: { zip: smallZip('right').toString('base64') },
    };
    const sig = signEnvelope(envelope, keys.signing);
    const wrong = await send({ ...envelope, sig, files: { zip: smallZip('wrong').toString('base64') } }, token);
    assert.equal(wrong.status, 401);
    const right = await send({ ...envelope, sig }, token);
    assert.equal(right.status, 201, right.text);
    const item = await takeOne(envelope.id);
    assert.ok(!(verifyDelivered(item as never) instanceof Refusal));
    assert.equal(JSON.parse(item.sig!.payload).files_sha256, sha256(smallZip('right')));
    await ana.ack(worker, [item.id]);
  });

  it('MIS-01: strict base64, a real zip, and no more than 5 MB of it', async () => {
    const good = smallZip('padding!').toString('base64');
    const bad: Array<[unknown, number, string]> = [
      [{ zip: `${good.slice(0, 20)}\n${good.slice(20)}` }, 422, 'files.zip'],
      [{ zip: `${good} ` }, 422, 'files.zip'],
      [{ zip: Buffer.from([0xfb, 0xff, 0xfe, 0xfb]).toString('base64url') }, 422, 'files.zip'],
      [{ zip: '' }, 422, 'files.zip'],
      [{ zip: Buffer.from('this is certainly no zip file').toString('base64') }, 422, 'files.zip'],
      [{ zip: 7 }, 422, 'files'],
      [{ bytes: 3, sha256: 'ab' }, 422, 'files'],
      [[], 422, 'files'],
      ['zip', 422, 'files'],
      [{ zip: zipOfSize(5 * MB + 1).toString('base64') }, 413, 'files'],
      [
        {
          zip: zipOf(Array.from({ length: 20_000 }, () => ({ name: '' }))).toString('base64'),
        },
        422,
        'files.zip',
      ],
    ];
    for (const [files, status, field] of bad) {
      const id = fresh('bad');
      const answer = await send({ id, files });
      assert.deepEqual([answer.status, answer.json.field], [status, field], JSON.stringify(files)?.slice(0, 60));
      assert.equal((await send({ id })).status, 201, 'a refused message does not burn its id');
    }
    const largest = zipOfSize(5 * MB);
    const sent = await zipped(largest, { body: { type: 'text/plain', text: '\u0001'.repeat(64 * 1024) } });
    assert.equal(sent.status, 201, sent.text);
    const answer = await fetchZip(sent.json.id, ana.token);
    assert.ok(Buffer.from(answer.json.zip, 'base64').equals(largest));
    const taken = await ana.take(worker, { max: 100 });
    await ana.ack(
      worker,
      taken.map((item) => item.id),
    );
  });

  it('null files are none; a sealed zip is ciphertext and not looked into', async () => {
    assert.equal((await send({ files: null })).status, 201);
    const sealed = {
      body: { type: 'application/redsyn+encrypted', enc: { v: 1, ct: 'x', files_nonce: 'y' } },
      refs: [],
      files: { zip: Buffer.from('ciphertext').toString('base64') },
    };
    const sent = await send(sealed);
    assert.equal(sent.status, 201, sent.text);
  });

  it('who has no part in a message does not learn of it', async () => {
    const sent = await zipped(smallZip());
    const other = await stranger.call('GET', `/redsyn/v1/messages/${sent.json.id}/files`);
    assert.equal(other.status, 404);
    // Another org of the same instance.
    const made = await acme.call('POST', '/redsyn/v1/orgs', { token: eve.token, body: { handle: 'evil', me: 'eve' } });
    assert.equal(made.status, 201);
    assert.equal((await fetchZip(fresh('never'))).status, 404);
    assert.equal((await fetchZip((await send({})).json.id)).status, 404, 'a message without files');
    assert.equal((await acme.call('GET', `/redsyn/v1/messages/${sent.json.id}/files`, { token: null })).status, 401);
  });

  it('REL-07: two senders may use one id; then `from` names whose files are wanted', async () => {
    const id = fresh('twice');
    const own = 'acme/general/eve/other';
    await eve.announce(own);
    const [first, second] = [smallZip('joel'), smallZip('eve')];
    await zipped(first, { id });
    await send({ id, from: own, files: { zip: second.toString('base64') } }, eve.token);
    const both = await fetchZip(id, ana.token);
    assert.equal(both.status, 409);
    assert.equal(both.json.field, 'from');
    const one = await acme.call('GET', `/redsyn/v1/messages/${id}/files?from=${encodeURIComponent(own)}`, {
      token: ana.token,
    });
    assert.deepEqual(Buffer.from(one.json.zip, 'base64'), second);
    // Her own message is hers without saying so.
    assert.deepEqual(Buffer.from((await fetchZip(id, eve.token)).json.zip, 'base64'), second);
  });

  it('a repeat with the same id gives the first result and keeps the first zip', async () => {
    const id = fresh('repeat');
    const [first, second] = [smallZip('first'), smallZip('second')];
    assert.equal((await zipped(first, { id })).status, 201);
    const again = await zipped(second, { id });
    assert.equal(again.json.duplicate, true);
    assert.deepEqual(Buffer.from((await fetchZip(id, ana.token)).json.zip, 'base64'), first);
  });

  it('the files of a request that was withdrawn go with it', async () => {
    const sent = await zipped(smallZip());
    const done = await acme.call('POST', `/redsyn/v1/messages/${sent.json.id}/cancel`);
    assert.ok(done.status < 300, done.text);
    assert.equal((await fetchZip(sent.json.id)).status, 410);
  });

  it('an event with files keeps them until the last who listens has taken it', async () => {
    const topic = 'topic:acme/general/papers';
    const other = 'acme/general/eve/reader';
    await eve.announce(other);
    for (const [agent, token] of [
      [worker, ana.token],
      [other, eve.token],
    ] as const) {
      const done = await acme.call('PUT', '/redsyn/v1/subscriptions', { token, body: { agent, topic } });
      assert.ok(done.status < 300, done.text);
    }
    const sent = await zipped(smallZip(), { id: fresh('event'), kind: 'event', to: topic });
    assert.equal(sent.status, 201, sent.text);
    const item = await takeOne(sent.json.id);
    await eve.take(other, { wait: 5 });
    await ana.ack(worker, [item.id]);
    assert.equal((await fetchZip(item.id, ana.token)).status, 200);
    await eve.ack(other, [item.id]);
    assert.equal((await fetchZip(item.id, ana.token)).status, 410);

    // The last two at the same moment, whichever of them the database takes for the last.
    for (let round = 0; round < 10; round++) {
      const { json } = await zipped(smallZip(), { id: fresh('at-once'), kind: 'event', to: topic });
      await Promise.all([ana.take(worker, { wait: 5 }), eve.take(other, { wait: 5 })]);
      const row = 'select seq from messages where id = $1';
      const { rows } = await acme.database.db.query<{ seq: number }>(row, [json.id]);
      // Two connections, so that both deletions are under way together.
      const remove = (agent: string) =>
        acme.database.db.tx(async (tx) => {
          await tx.query(
            'delete from deliveries d using agents a where a.id = d.agent_id and a.handle = $2 and d.message_seq = $1',
            [rows[0]!.seq, agent],
          );
          await tx.query('select pg_sleep(0.02)');
        });
      await Promise.all([remove('worker'), remove('reader')]);
      assert.equal((await fetchZip(json.id, ana.token)).status, 410);
    }
  });

  it('an unauthenticated caller sends no large body: it is refused before it is read', async () => {
    const status = await new Promise<string>((resolve, reject) => {
      const { hostname, port } = new URL(acme.url);
      const socket = connect(Number(port), hostname === 'localhost' ? '127.0.0.1' : hostname);
      socket.setEncoding('utf8').on('error', reject);
      socket.once('data', (text: string) => {
        resolve(text.split('\r\n', 1)[0]!);
        socket.destroy();
      });
      // Seven megabytes are announced and none are sent.
      socket.write(
        `POST /redsyn/v1/messages HTTP/1.1\r\nHost: ${acme.authority}\r\nContent-Type: application/json\r\n` +
          `Authorization: Bearer ghn_nobody\r\nContent-Length: 7000000\r\n\r\n`,
      );
    });
    assert.match(status, / 401 /);
    const huge = await acme.call('POST', '/redsyn/v1/messages', { body: `"${'x'.repeat(8 * MB)}"` });
    assert.equal(huge.status, 413);
  });
});

describe('files between two gateways', () => {
  it('the zip crosses with its envelope, both ways, and the signature holds at the other end', async () => {
    const { acme, globex } = pair;
    const zip = zipOfSize(5 * MB);
    const sent = await acme.admin.send({
      from: reviewer,
      to: billing,
      text: 'Invoices',
      files: zip,
    });
    const [request] = await globex.admin.take(billing, { wait: 10 });
    assert.ok(request);
    assert.deepEqual(request.files, { bytes: zip.length, sha256: sha256(zip) });
    assert.ok(!(verifyDelivered(request as never) instanceof Refusal));
    const there = await globex.call('GET', `/redsyn/v1/messages/${sent.id}/files`);
    assert.ok(Buffer.from(there.json.zip, 'base64').equals(zip));
    // Handed over, so no longer here.
    await eventually('the sending gateway has let go', async () => {
      const here = await acme.call('GET', `/redsyn/v1/messages/${sent.id}/files`);
      return here.status === 410;
    });

    const back = smallZip('paid');
    // The link takes signed messages alone.
    const bob = await signer(globex);
    const unsigned = {
      v: 1,
      id: 'reply-with-files',
      kind: 'reply',
      from: billing,
      reply_to: request.id,
      thread: request.thread,
      ts: Math.floor(Date.now() / 1000),
      body: { type: 'text/plain', text: 'Yes.' },
      files: { zip: back.toString('base64') },
    };
    const reply = await globex.call('POST', '/redsyn/v1/messages', {
      token: bob.token,
      body: { ...unsigned, sig: signEnvelope(unsigned, bob.keys.signing) },
    });
    assert.equal(reply.status, 201, reply.text);
    const [answer] = await acme.admin.take(reviewer, { wait: 10, replyTo: sent.id });
    assert.ok(answer);
    assert.deepEqual(answer.files, { bytes: back.length, sha256: sha256(back) });
    const here = await acme.call('GET', '/redsyn/v1/messages/reply-with-files/files');
    assert.ok(Buffer.from(here.json.zip, 'base64').equals(back));
    await acme.admin.ack(reviewer, [answer.id]);
    assert.equal((await acme.call('GET', '/redsyn/v1/messages/reply-with-files/files')).status, 410);
    assert.equal((await globex.call('GET', `/redsyn/v1/messages/${sent.id}/files`)).status, 410);
  });
});

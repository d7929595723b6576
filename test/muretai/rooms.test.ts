import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isSignedBy } from '../../src/identity/introduction.ts';
import { type Called, eventually, person, testGateway } from '../support/gateway.ts';

const gateway = await testGateway({ after });
const joels = 'acme/general/joel';
type Person = Awaited<ReturnType<typeof person>>;
let ana: Person;
let bob: Person;
let eve: Person;
let count = 0;

before(async () => {
  [ana, bob, eve] = [await person(gateway, 'ana'), await person(gateway, 'bob'), await person(gateway, 'eve')];
  await ana.announce('acme/general/ana/desk');
  await bob.announce('acme/general/bob/desk');
  await eve.announce('acme/general/eve/desk');
});

const put = (name: string, room: object, more: object = {}) =>
  gateway.call('PUT', `/redsyn/v1/agents/${joels}/${name}`, { body: { listening: true, room, ...more } });
const members = (room: string, token = gateway.token) =>
  gateway.call('GET', `/api/v1/rooms/${joels}/${room}/members`, { token });
const add = (room: string, agent: string, token = gateway.token) =>
  gateway.call('POST', `/api/v1/rooms/${joels}/${room}/members`, { token, body: { agent } });
const drop = (room: string, who: string, token = gateway.token) =>
  gateway.call('DELETE', `/api/v1/rooms/${joels}/${room}/members/${encodeURIComponent(who)}`, { token });

/** A room with ana and bob in it. */
async function room(axes: object = {}): Promise<string> {
  const name = `room${count++}`;
  assert.equal((await put(name, axes)).status, 201);
  for (const who of ['ana', 'bob']) assert.equal((await add(name, `acme/general/${who}/desk`)).status, 201);
  return name;
}

function post(room: string, by: Person, from: string, text: string, more: object = {}) {
  const id = `post-${count++}`;
  const body = { v: 1, id, kind: 'request', from, to: `${joels}/${room}`, body: { type: 'text/plain', text }, ...more };
  return gateway.call('POST', '/redsyn/v1/messages', { token: by.token, body });
}

/** Takes and acks what waits for somebody's desk, and tells its texts. */
async function heard(who: Person, at: string): Promise<Array<Called['json']>> {
  const { items } = (await gateway.call('GET', `/redsyn/v1/inbox/acme/general/${at}/desk`, { token: who.token })).json;
  for (const { id } of items)
    await gateway.call('POST', `/redsyn/v1/inbox/acme/general/${at}/desk/ack`, {
      token: who.token,
      body: { ids: [id] },
    });
  return items;
}

test('what a member posts reaches every other member, signed by the room, with what the member signed', async () => {
  const name = await room();
  const sent = await post(name, ana, 'acme/general/ana/desk', 'Lunch at two?');
  assert.equal(sent.status, 201, sent.text);
  const [item] = await heard(bob, 'bob');
  assert.equal(item!.kind, 'event');
  assert.equal(item!.from, 'acme/general/ana/desk');
  assert.equal(item!.body.text, 'Lunch at two?');
  const { did, messageId, timestamp, text, sig, author, original } = item!.room;
  assert.equal(author, 'acme/general/ana/desk');
  assert.equal(text, 'Lunch at two?');
  assert.ok(isSignedBy(did, { contextId: null, from: did, messageId, text, timestamp, to: did }, sig));
  assert.equal(original.kind, 'request');
  assert.equal(original.id, sent.json.id);
  const own = await heard(ana, 'ana');
  assert.deepEqual(
    own.map(({ kind, body }) => [kind, body.text]),
    [['reply', 'Posted to the room.']],
    'the author gets no copy',
  );
});

test('a repeat is told the same and reaches nobody twice', async () => {
  const name = await room();
  const same = { id: `same-${count}` };
  const answers = await Promise.all([1, 2, 3].map(() => post(name, ana, 'acme/general/ana/desk', 'once', same)));
  assert.deepEqual(new Set(answers.map(({ json }) => json.id)).size, 1);
  assert.equal((await heard(bob, 'bob')).length, 1);
  await heard(ana, 'ana');
});

test('only members post and only members and the owner see who is in', async () => {
  const name = await room();
  const refused = await post(name, eve, 'acme/general/eve/desk', 'let me in');
  assert.equal(refused.status, 403);
  assert.equal(refused.json.code, 'policy_denied');
  assert.equal((await post(name, gateway.admin as Person, `${joels}/${name}`, 'as the room')).status, 403);
  assert.equal((await heard(bob, 'bob')).length, 0);
  assert.equal((await members(name)).json.members.length, 2);
  assert.equal((await members(name, ana.token)).json.members.length, 2);
  assert.equal((await members(name, eve.token)).status, 404);
  assert.equal((await drop(name, 'acme/general/ana/desk', eve.token)).status, 404, 'a stranger removes nobody');
  assert.equal((await drop(name, 'acme/general/ana/desk', bob.token)).status, 404, 'nor does another member');
});

test('who leaves or is removed gets nothing more and posts nothing more', async () => {
  const name = await room();
  assert.equal((await drop(name, 'acme/general/bob/desk', bob.token)).status, 200);
  assert.equal((await post(name, ana, 'acme/general/ana/desk', 'without bob')).status, 201);
  assert.equal((await heard(bob, 'bob')).length, 0);
  assert.equal((await post(name, bob, 'acme/general/bob/desk', 'still here')).status, 403);
  const [{ did }] = (await members(name)).json.members;
  assert.equal((await drop(name, did)).status, 200);
  assert.equal((await post(name, ana, 'acme/general/ana/desk', 'alone')).status, 403);
  assert.equal((await drop(name, did)).status, 404);
  assert.equal((await add(name, 'acme/general/bob/desk')).status, 201);
  assert.equal((await add(name, 'acme/general/ana/desk')).status, 201);
  await post(name, ana, 'acme/general/ana/desk', 'back again');
  assert.deepEqual(
    (await heard(bob, 'bob')).map(({ body }) => body.text),
    ['back again'],
  );
  await heard(ana, 'ana');
});

test('a removal and a post at once: the post is in whole or refused', async () => {
  const name = await room();
  const [removed, posted] = await Promise.all([
    drop(name, 'acme/general/ana/desk'),
    post(name, ana, 'acme/general/ana/desk', 'just in time'),
  ]);
  assert.equal(removed.status, 200);
  const reached = (await heard(bob, 'bob')).length;
  assert.equal(reached, posted.status === 201 ? 1 : 0, `${posted.status} ${posted.text}`);
  await heard(ana, 'ana');
});

test('invite, request and open decide who joins', async () => {
  const join = async (axes: object) => {
    const name = await room(axes);
    return { name, answer: await add(name, 'acme/general/eve/desk', eve.token) };
  };
  const invite = await join({});
  assert.equal(invite.answer.status, 403);
  const open = await join({ join: 'open' });
  assert.deepEqual([open.answer.status, open.answer.json.status], [201, 'connected']);
  assert.equal((await post(open.name, eve, 'acme/general/eve/desk', 'hello all')).status, 201);
  assert.equal((await add(open.name, 'acme/general/eve/desk', eve.token)).status, 409, 'she is in already');
  const request = await join({ join: 'request' });
  assert.equal(request.answer.status, 202);
  assert.equal((await post(request.name, eve, 'acme/general/eve/desk', 'may I?')).status, 403);
  const { permissions } = (await gateway.call('GET', '/api/v1/permissions/pending')).json;
  const [asked] = permissions.filter((row: { action: string }) => row.action === 'connect');
  assert.match(asked.scope.first_message, /asks to join the room/);
  const decided = await gateway.call('POST', `/api/v1/permissions/${asked.id}/decide`, {
    body: { decision: 'allow_once' },
  });
  assert.equal(decided.status, 200);
  assert.equal((await members(request.name)).json.members.length, 3);
  const { contacts } = (await gateway.call('GET', '/api/v1/contacts')).json;
  assert.deepEqual(contacts, [], 'a member of a room is no contact of its owner');
  assert.equal(
    (await add(invite.name, 'acme/general/bob/desk', eve.token)).status,
    403,
    'nobody brings another’s agent',
  );
  for (const [who, at] of [
    [ana, 'ana'],
    [bob, 'bob'],
    [eve, 'eve'],
  ] as const)
    await heard(who, at);
});

test('a member-only room takes nothing that its hub could read; a room takes no files and no follow-ups', async () => {
  const name = await room({ confidentiality: 'member-only' });
  const open = await post(name, ana, 'acme/general/ana/desk', 'for all to read');
  assert.equal(open.status, 403);
  assert.equal(open.json.encrypted_only, true);
  const sealed = { body: { type: 'application/redsyn+encrypted', enc: { v: 1 } } };
  assert.equal((await post(name, ana, 'acme/general/ana/desk', '', sealed)).status, 201);
  const readable = await room();
  assert.equal(
    (await post(readable, ana, 'acme/general/ana/desk', '', sealed)).status,
    403,
    'its members could not read it',
  );
  await heard(bob, 'bob');
  const box = Buffer.alloc(64, 7).toString('base64');
  assert.equal((await post(name, ana, 'acme/general/ana/desk', box)).status, 201);
  assert.equal((await heard(bob, 'bob'))[0]!.body.text, box);
  await heard(ana, 'ana');
});

test('in an ephemeral room nothing waits long, and when it is empty its invitations end', async () => {
  const name = await room({ lifetime: 'ephemeral' });
  await post(name, ana, 'acme/general/ana/desk', 'now or never', { ttl: 86_400 });
  const [item] = await heard(bob, 'bob');
  assert.ok(item.expires <= Date.now() / 1000 + 3_600, `${item.expires}`);
  const invites = `/api/v1/trust/${joels}/${name}/invites`;
  await gateway.call('POST', invites, { body: {} });
  const ended = async (): Promise<boolean> => (await gateway.call('GET', invites)).json.invites[0].revoked_at !== null;
  await drop(name, 'acme/general/ana/desk');
  assert.equal(await ended(), false);
  await drop(name, 'acme/general/bob/desk');
  assert.equal(await ended(), true);
  await heard(ana, 'ana');
});

test('an axis that is misspelt is refused, and what is absent has its default', async () => {
  for (const axes of [{ join: 'anybody' }, { visible: true }, { lifetime: null }]) {
    const refused = await put('odd', axes);
    assert.equal(refused.status, 422, refused.text);
    assert.match(refused.json.field, /^room\./);
  }
  assert.equal((await put('odd', {})).status, 201);
});

test('what was posted before a restart is there after it', async () => {
  const name = await room();
  const second = await gateway.replica();
  const { status } = await post(name, ana, 'acme/general/ana/desk', 'before the restart');
  assert.equal(status, 201);
  await second.stop();
  const waiting = await eventually('the post', async () => {
    const items = await heard(bob, 'bob');
    return items.length > 0 && items;
  });
  assert.equal(waiting[0]!.body.text, 'before the restart');
  await heard(ana, 'ana');
});

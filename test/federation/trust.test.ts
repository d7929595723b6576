import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import type { Agent } from '../../src/directory/types.ts';
import { createFederation, type FederationParts } from '../../src/federation/index.ts';
import { revocationsDocument } from '../../src/federation/trust/revocations.ts';
import { readIntroduction, signIntroduction } from '../../src/identity/introduction.ts';
import { readInvitation } from '../../src/identity/invitation.ts';
import { generateSeed, type KeyPair, keyPair } from '../../src/identity/keys.ts';
import type { Fetch } from '../../src/lib/fetch-types.ts';
import { createLog } from '../../src/lib/log.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { createOutbox } from '../../src/outbox/index.ts';
import { at, authority, caller, codes, first, house, listening, newcomer, ok } from '../directory/fixture.ts';

const here = await house({ after });
await here.start();
const { clock, registry, database } = here;
const joel = await caller(registry, first.adminToken!);
const base = `https://${authority}`;
/** What other nodes answer to `GET …/revocations`, by URL; others do not answer. */
const elsewhere = new Map<string, object>();
const asked: string[] = [];
const fetch: Fetch = async (url) => {
  asked.push(url);
  const body = elsewhere.get(url);
  if (!body) throw new Error('no answer');
  return { status: 200, headers: { get: () => undefined }, body: Buffer.from(JSON.stringify(body)) };
};
const quiet = createLog({ level: 'fatal' });
const outbox = createOutbox({ db: database.db, notifier: database.notifier, clock, log: quiet });
const federationOn = (db = database.db): FederationParts =>
  createFederation({
    db,
    clock,
    log: quiet,
    fetch,
    resolver: { resolve: async () => new Refusal('did_resolution_failed') },
    registry,
    outbox,
    authority,
    base,
    loopback: false,
  });
const federation = federationOn();
const { trust } = federation;

let agent: Agent;
let count = 0;
const nowhere = { name: '', url: null, relay: null, encPub: null };
const someone = (): KeyPair => keyPair(generateSeed());
const didOf = (one: Agent): Promise<string> => registry.keyring.didKey(registry.keyring.agent(one));
const told = (result: unknown): string =>
  result instanceof Refusal ? result.code : ((result as { status?: string; relation?: string }).status ?? 'ok');

async function announce(handle: string, more: Partial<typeof listening> & { profile?: Record<string, unknown> } = {}) {
  const made = ok(
    await registry.agents.announce(joel, at('acme', 'general', 'joel', handle), { ...listening, ...more }),
  );
  return made.agent;
}

/** An agent of somebody of whom nobody is a contact yet. */
beforeEach(async () => {
  const name = `p${count++}`;
  const { node } = await newcomer(registry, joel, 'acme', name);
  agent = ok(await registry.agents.announce(node, at('acme', 'general', name, 'desk'), listening)).agent;
});

async function befriend(did: string): Promise<string> {
  return (await federation.addContact(agent.memberId, did)).id;
}

async function introductionBy(
  issuer: KeyPair,
  subject: string,
  more: Partial<Parameters<typeof signIntroduction>[0]> = {},
) {
  const claims = { subject, introducedTo: await didOf(agent), expertise: ['tax'], level: 700, endpoint: null };
  return signIntroduction({ ...claims, now: clock.now(), validUntil: clock.now() + 86_400_000, ...more }, issuer);
}

const calls = async (): Promise<Array<{ method: string; to: string; params: object }>> => {
  const { rows } = await database.db.query<{ body: string }>(
    `select body from outbox where kind = 'muretai-call' order by id`,
  );
  return rows.map(({ body }) => JSON.parse(body));
};

test('an introduction by a contact covers who shows it, and is remembered', async () => {
  const [friend, friendsFriend] = [someone(), someone()];
  await befriend(friend.did);
  const { text } = await introductionBy(friend, friendsFriend.did);
  assert.equal(await federation.isIntroduced(agent, friendsFriend.did, { ask: true }), false);
  ok(await federation.presentIntroduction(agent, friendsFriend.did, text));
  assert.equal(await federation.isIntroduced(agent, friendsFriend.did, { ask: true }), true);
  const status = ok(await trust.status(agent, friendsFriend.did));
  assert.deepEqual(status, {
    subject: friendsFriend.did,
    trusted: true,
    relation: 'introduced',
    depth: 2,
    trustLevel: 700,
    vouchedBy: [friend.did],
    expertise: ['tax'],
  });
  clock.advance(86_400_001);
  assert.equal(await federation.isIntroduced(agent, friendsFriend.did, { ask: true }), false, 'it has expired');
});

test('an introduction covers nobody else, no other agent, and goes no further than one step', async () => {
  const [friend, second, third] = [someone(), someone(), someone()];
  await befriend(friend.did);
  const show = async (by: KeyPair, credential: { text: string }) =>
    told(await federation.presentIntroduction(agent, by.did, credential.text));
  assert.equal(await show(third, await introductionBy(friend, second.did)), 'introduction_invalid');
  const elsewhere = await introductionBy(friend, second.did, { introducedTo: third.did });
  assert.equal(await show(second, elsewhere), 'introduction_invalid');
  const late = await introductionBy(friend, second.did, { validUntil: clock.now() });
  assert.equal(await show(second, late), 'introduction_invalid');
  assert.equal(await show(second, { text: '{"issuer":1}' }), 'introduction_invalid');
  assert.equal(await show(second, await introductionBy(friend, second.did)), 'ok');
  assert.equal(
    await show(third, await introductionBy(second, third.did)),
    'introducer_unknown',
    'the chain is too deep',
  );
  assert.equal(await show(third, await introductionBy(third, third.did)), 'introducer_unknown');
  assert.equal(await federation.isIntroduced(agent, third.did, { ask: true }), false);
});

test('who loses a contact loses whom it introduced', async () => {
  const [friend, second] = [someone(), someone()];
  const id = await befriend(friend.did);
  ok(await federation.presentIntroduction(agent, second.did, (await introductionBy(friend, second.did)).text));
  ok(await federation.setBlocked(agent.memberId, id, true));
  assert.equal(await federation.isIntroduced(agent, second.did, { ask: true }), false);
  assert.equal(ok(await trust.status(agent, second.did)).relation, 'none');
  assert.equal(
    told(await federation.presentIntroduction(agent, second.did, (await introductionBy(friend, second.did)).text)),
    'introducer_unknown',
  );
  ok(await federation.setBlocked(agent.memberId, id, false));
  assert.equal(await federation.isIntroduced(agent, second.did, { ask: true }), true);
});

test('what its issuer revoked is refused when it is shown, and ends when the issuer is asked again', async () => {
  const [friend, second] = [someone(), someone()];
  await befriend(friend.did);
  const endpoint = 'https://friend.example/node';
  const { id, text } = await introductionBy(friend, second.did, { endpoint, validUntil: clock.now() + 7 * 86_400_000 });
  ok(await federation.presentIntroduction(agent, second.did, text));
  assert.equal(asked.at(-1), `${endpoint}/revocations`);
  const [unchecked] = await trust.introductions.held(agent);
  assert.equal(unchecked?.checkedAt, null, 'nobody answered: it counts, and the owner sees that nobody did');

  elsewhere.set(`${endpoint}/revocations`, revocationsDocument([id], second, clock.now()));
  clock.advance(60_001);
  assert.equal(
    await federation.isIntroduced(agent, second.did, { ask: true }),
    true,
    'somebody else does not revoke it',
  );
  elsewhere.set(`${endpoint}/revocations`, revocationsDocument([], friend, clock.now()));
  clock.advance(60_001);
  assert.equal(await federation.isIntroduced(agent, second.did, { ask: true }), true);
  elsewhere.set(`${endpoint}/revocations`, revocationsDocument([id], friend, clock.now()));
  clock.advance(60_001);
  assert.equal(
    await federation.isIntroduced(agent, second.did, { ask: true }),
    true,
    'it was asked less than ten minutes ago',
  );
  clock.advance(600_000);
  assert.equal(await federation.isIntroduced(agent, second.did, { ask: true }), false);
  elsewhere.set(`${endpoint}/revocations`, revocationsDocument([], friend, clock.now()));
  clock.advance(60_001);
  assert.equal(
    told(await federation.presentIntroduction(agent, second.did, text)),
    'introduction_invalid',
    'a revocation is never taken back',
  );
});

test('what an agent here issues verifies, is listed, and is told as revoked', async () => {
  const [subject, other] = [someone(), someone()];
  await befriend(subject.did);
  assert.equal(await trust.introductions.revocations(agent), null, 'who never issued one has no such document');
  const issued = ok(
    await trust.introductions.issue(agent, { subject: subject.did, introducedTo: other.did, expertise: ['law'] }),
  );
  const read = readIntroduction(issued.credential, { subject: subject.did, introducedTo: other.did, now: clock.now() });
  assert.ok(!(read instanceof Refusal));
  assert.equal(read.issuer, await didOf(agent));
  assert.equal(read.level, 1000);
  assert.equal(read.endpoint, `${base}/agents/${agent.user}/general/desk`);
  assert.deepEqual((await trust.introductions.revocations(agent)) as object, {
    ...((await trust.introductions.revocations(agent)) as object),
    revoked: [],
  });
  assert.equal(told(await trust.introductions.revoke(agent, 'urn:uuid:0')), 'not_found');
  ok(await trust.introductions.revoke(agent, issued.id));
  assert.deepEqual(((await trust.introductions.revocations(agent)) as { revoked: string[] }).revoked, [issued.id]);
  for (const [what, field] of [
    [{ subject: 'did:web:acme.com', introducedTo: other.did }, 'subject'],
    [{ subject: other.did, introducedTo: other.did }, 'introducedTo'],
    [{ subject: subject.did, introducedTo: other.did, validFor: 1 }, 'validFor'],
    [{ subject: await didOf(agent), introducedTo: other.did }, 'subject'],
  ] as const) {
    const refused = await trust.introductions.issue(agent, what);
    assert.ok(refused instanceof Refusal && refused.data?.field === field);
  }
});

test('a colleague of the owner introduces without being a contact, and revoking acts at once', async () => {
  const stranger = someone();
  const colleague = await announce(`colleague${count}`);
  const issued = ok(
    await trust.introductions.issue(colleague, { subject: stranger.did, introducedTo: await didOf(agent), level: 500 }),
  );
  ok(await federation.presentIntroduction(agent, stranger.did, issued.credential));
  assert.equal(await federation.isIntroduced(agent, stranger.did, { ask: true }), true);
  ok(await trust.introductions.revoke(colleague, issued.id));
  assert.equal(await federation.isIntroduced(agent, stranger.did, { ask: true }), false);
  assert.equal(
    told(await federation.presentIntroduction(agent, stranger.did, issued.credential)),
    'introduction_invalid',
  );
});

test('an invitation makes a contact of the first who shows its value, and of nobody else', async () => {
  const invite = ok(await trust.invites.create(agent, { purpose: 'for the fair' }));
  const card = readInvitation(JSON.stringify(invite.card), clock.now());
  assert.ok(!(card instanceof Refusal));
  assert.equal(card.did, await didOf(agent));
  assert.equal(card.url, `${base}/agents/${agent.user}/general/desk`);
  const many = [someone(), someone(), someone(), someone()];
  const other = federationOn(await database.replica());
  const results = await Promise.all(
    many.map(({ did }, i) =>
      (i % 2 ? other : federation).trust.invites.claim(agent, did, { ...nowhere, name: `n${i}`, nonce: card.nonce }),
    ),
  );
  assert.deepEqual(codes(results), ['introduction_invalid', 'introduction_invalid', 'introduction_invalid', 'ok']);
  const winner = many[results.findIndex((result) => !(result instanceof Refusal))]!;
  assert.equal(ok(await trust.status(agent, winner.did)).relation, 'direct');
  const claim = (who: KeyPair, nonce = card.nonce) => trust.invites.claim(agent, who.did, { ...nowhere, nonce });
  assert.equal(told(await claim(winner)), 'connected', 'an answer that was lost is repeated');
  assert.deepEqual(
    (await trust.invites.list(agent)).map(({ spentBy, purpose }) => [spentBy, purpose]),
    [[winner.did, 'for the fair']],
  );
  const contact = await federation.contact(agent.memberId, [winner.did]);
  await federation.removeContact(agent.memberId, contact!.id);
  assert.equal(told(await claim(winner)), 'introduction_invalid', 'whoever was removed does not come back by it');
});

test('an invitation that is unknown, expired, revoked, or another agent’s is worth nothing, and so it is to who is blocked', async () => {
  const stranger = someone();
  const nonceOf = async (validFor?: number): Promise<{ id: string; nonce: string }> => {
    const { id, card } = ok(await trust.invites.create(agent, validFor === undefined ? {} : { validFor }));
    return { id, nonce: (card as { nonce: string }).nonce };
  };
  const claim = async (nonce: string, who = stranger, of = agent) =>
    told(await trust.invites.claim(of, who.did, { ...nowhere, nonce }));
  assert.equal(await claim('00'), 'introduction_invalid');
  const short = await nonceOf(60);
  clock.advance(60_000);
  assert.equal(await claim(short.nonce), 'introduction_invalid');
  const revoked = await nonceOf();
  assert.equal(await trust.invites.revoke(agent, revoked.id), true);
  assert.equal(await claim(revoked.nonce), 'introduction_invalid');
  const good = await nonceOf();
  assert.equal(await claim(good.nonce, stranger, await announce(`other${count}`)), 'introduction_invalid');
  const enemy = someone();
  ok(await federation.setBlocked(agent.memberId, await befriend(enemy.did), true));
  assert.equal(await claim(good.nonce, enemy), 'introduction_invalid');
  assert.equal(await claim(good.nonce), 'connected', 'whoever failed did not spend it');
  assert.equal(told(await trust.invites.create(agent, { validFor: 1 })), 'invalid_field');
});

test('filtered: a request waits for the owner, who is asked once; her yes makes the contact and is told', async () => {
  const stranger = someone();
  const knock = { name: 'Ana', url: 'https://ana.example/', relay: null, encPub: null, note: 'We met at the fair' };
  const request = async () => told(await trust.connect.request(agent, stranger.did, knock));
  assert.equal(await request(), 'pending');
  assert.equal(await request(), 'pending');
  const waiting = await federation.listRequests(agent.memberId);
  assert.deepEqual(
    waiting.map(({ peerDid, firstMessage, agentId }) => [peerDid, firstMessage, agentId]),
    [[stranger.did, 'We met at the fair', agent.id]],
  );
  assert.equal(ok(await trust.status(agent, stranger.did)).relation, 'none', 'the request grants nothing by itself');
  ok(await federation.decide(agent.memberId, waiting[0]!.id, 'allow'));
  assert.equal(ok(await trust.status(agent, stranger.did)).relation, 'direct');
  assert.equal(await request(), 'already_connected');
  assert.deepEqual(
    (await calls()).filter(({ to }) => to === stranger.did).map(({ method, params }) => [method, params]),
    [['connect/respond', { accept: true }]],
  );
});

test('a no is told too, and asking again changes nothing', async () => {
  const stranger = someone();
  const knock = { ...nowhere, url: 'https://eve.example/', note: '' };
  await trust.connect.request(agent, stranger.did, knock);
  const [row] = await federation.listRequests(agent.memberId);
  ok(await federation.decide(agent.memberId, row!.id, 'deny'));
  assert.equal(
    told(await trust.connect.request(agent, stranger.did, knock)),
    'pending',
    'denied and waiting look the same',
  );
  assert.equal((await federation.listRequests(agent.memberId)).length, 0);
  assert.deepEqual(
    (await calls()).filter(({ to }) => to === stranger.did).map(({ params }) => params),
    [{ accept: false }],
  );
});

test('open connects at once, closed refuses and leaves no trace; who is blocked cannot tell', async () => {
  const [one, two, enemy] = [someone(), someone(), someone()];
  ok(await federation.setBlocked(agent.memberId, await befriend(enemy.did), true));
  const request = async (who: KeyPair) => told(await trust.connect.request(agent, who.did, { ...nowhere, note: '' }));
  await trust.changeSettings(agent.id, { connect: 'open' });
  assert.deepEqual(await trust.settings(agent.id), { connect: 'open', privacy: 'self' });
  assert.equal(await request(one), 'connected');
  assert.equal(await request(enemy), 'pending');
  await trust.changeSettings(agent.id, { connect: 'closed' });
  assert.equal(await request(one), 'already_connected');
  assert.equal(await request(two), 'connect_refused');
  assert.equal(await request(enemy), 'connect_refused');
  await federation.requestConnection({
    owner: agent.memberId,
    peerDid: two.did,
    agentId: agent.id,
    firstMessage: 'hello',
  });
  assert.equal((await federation.listRequests(agent.memberId)).length, 0, 'a message leaves no question either');
  assert.equal(ok(await trust.status(agent, two.did)).relation, 'none');
});

test('did:keys by the million take no room from others, and are told when there is none', async () => {
  const knock = { ...nowhere, note: '' };
  const did = 'did:web:globex.com:agents:bob';
  await Promise.all(Array.from({ length: 200 }, () => trust.connect.request(agent, someone().did, knock)));
  assert.equal(told(await trust.connect.request(agent, someone().did, knock)), 'rate_limited');
  clock.advance(1);
  await federation.requestConnection({ owner: agent.memberId, peerDid: did, agentId: agent.id, firstMessage: 'x' });
  assert.ok((await federation.listRequests(agent.memberId)).some(({ peerDid }) => peerDid === did));
});

test('an acceptance counts only from whom the agent asked, once, and until it was answered', async () => {
  const [asked, liar] = [someone(), someone()];
  const respond = async (who: KeyPair, accept = true) =>
    told(await trust.connect.respond(agent, who.did, { ...nowhere, accept }));
  assert.equal(await respond(liar), 'no_pending_request');
  assert.equal(await respond(asked), 'no_pending_request');
  ok(await trust.connect.ask(agent, { did: asked.did, url: 'https://asked.example/', note: 'hello' }));
  assert.deepEqual(
    (await calls()).filter(({ to }) => to === asked.did),
    [
      {
        method: 'connect/request',
        agentId: agent.id,
        to: asked.did,
        url: 'https://asked.example/',
        params: { note: 'hello' },
      },
    ],
  );
  assert.equal(await respond(liar), 'no_pending_request');
  assert.equal(ok(await trust.status(agent, liar.did)).relation, 'none', 'an unsolicited acceptance plants nothing');
  const both = await Promise.all([respond(asked), respond(asked, false)]);
  assert.equal(both.filter((word) => word === 'no_pending_request').length, 1, 'of two answers at once, one counts');
  const { relation } = ok(await trust.status(agent, asked.did));
  assert.equal(relation, both.includes('connected') ? 'direct' : 'none');
  assert.equal(await respond(asked), 'no_pending_request');
});

test('what an agent asked is remembered by a gateway that starts anew', async () => {
  const asked = someone();
  ok(await trust.connect.ask(agent, { did: asked.did, url: 'https://asked.example/', note: '' }));
  const anew = federationOn(await database.replica());
  assert.deepEqual(ok(await anew.trust.connect.respond(agent, asked.did, { ...nowhere, accept: true })), {
    status: 'connected',
  });
  assert.equal(ok(await trust.status(agent, asked.did)).relation, 'direct');
});

test('two that ask each other are connected', async () => {
  const other = someone();
  ok(await trust.connect.ask(agent, { did: other.did, url: 'https://other.example/', note: '' }));
  assert.equal(told(await trust.connect.request(agent, other.did, { ...nowhere, note: '' })), 'connected');
  assert.equal(
    told(await trust.connect.ask(agent, { did: other.did, url: 'https://other.example/', note: '' })),
    'already_connected',
  );
  assert.equal(
    told(await trust.connect.ask(agent, { did: 'did:web:x.com', url: 'https://x.com', note: '' })),
    'invalid_field',
  );
  assert.equal(told(await trust.connect.ask(agent, { did: someone().did, url: 'ftp://x', note: '' })), 'invalid_field');
});

test('who may ask about third parties is the owner’s to say', async () => {
  const [friend, third, stranger] = [someone(), someone(), someone()];
  await befriend(friend.did);
  const ask = async (by: KeyPair, subject?: string) => told(await trust.status(agent, by.did, subject));
  assert.equal(await ask(stranger), 'ok', 'one’s own standing is always told');
  assert.equal(await ask(friend, third.did), 'query_not_permitted');
  await trust.changeSettings(agent.id, { privacy: 'trusted' });
  assert.equal(await ask(friend, third.did), 'ok');
  assert.equal(await ask(stranger, friend.did), 'query_not_permitted');
  await trust.changeSettings(agent.id, { privacy: 'public' });
  assert.equal(ok(await trust.status(agent, stranger.did, friend.did)).depth, 1);
  assert.equal(await ask(stranger, 'nonsense'), 'invalid_field');
  const self = ok(await trust.status(agent, stranger.did, await didOf(agent)));
  assert.deepEqual([self.relation, self.depth, self.trustLevel], ['self', 0, 1000]);
});

test('a referral names who knows, to those whom the agent trusts', async () => {
  const [friend, expert, stranger] = [someone(), someone(), someone()];
  await befriend(friend.did);
  await befriend(expert.did);
  ok(await trust.invites.create(agent, {}));
  const find = (who: KeyPair, topic: string) => trust.referrals.find(agent, who.did, { topic });
  assert.equal((await find(friend, 'Who knows photography?')).credential, null, 'nobody was said to know it');
  await trust.describe(agent, expert.did, { level: 900, expertise: ['photography'] });
  assert.equal((await find(stranger, 'photography')).credential, null, 'a stranger is not vouched for');
  const found = await find(friend, 'Who knows photography?');
  const read = readIntroduction(found.credential!, { subject: friend.did, introducedTo: expert.did, now: clock.now() });
  assert.ok(!(read instanceof Refusal));
  assert.equal(read.issuer, await didOf(agent));
  assert.equal((await find(friend, 'photography')).credential, found.credential, 'asked again, the same one');
  assert.equal((await find(expert, 'photography')).credential, null, 'nobody is introduced to itself');
  assert.notEqual((await find(friend, `introduce-me-to:${expert.did}`)).credential, null);
  assert.equal((await find(friend, `introduce-me-to:${stranger.did}`)).credential, null);
  const contact = await federation.contact(agent.memberId, [expert.did]);
  ok(await federation.setBlocked(agent.memberId, contact!.id, true));
  assert.equal((await find(friend, 'photography')).credential, null);
});

test('a referral names public agents here by what they say of themselves', async () => {
  const friend = someone();
  await befriend(friend.did);
  const open = { ...listening.policy, allow: ['anyone'] };
  const expert = await announce(`botanist${count}`, { policy: open as never, profile: { tags: [`botany${count}`] } });
  await announce(`hidden${count}`, { profile: { tags: [`secret${count}`] } });
  const find = (topic: string) => trust.referrals.find(agent, friend.did, { topic });
  const found = await find(`botany${count}`);
  assert.equal(found.url, `${base}/agents/joel/general/botanist${count}`);
  assert.ok(
    !(
      readIntroduction(found.credential!, {
        subject: friend.did,
        introducedTo: await didOf(expert),
        now: clock.now(),
      }) instanceof Refusal
    ),
  );
  assert.equal((await find(`secret${count}`)).credential, null);
});

test('what another node answers to our call decides it, and only while it waits', async () => {
  const [taken, refused, late] = [someone(), someone(), someone()];
  const card = { url: 'https://x.example/', nonce: 'n1' };
  for (const { did } of [taken, refused, late]) ok(await trust.connect.claim(agent, { did, ...card }));
  const answer = (who: KeyPair, what: Parameters<typeof trust.connect.answered>[2]) =>
    database.db.tx((tx) => trust.connect.answered(tx, { agent, did: who.did }, what));
  await answer(taken, { status: 'connected' });
  await answer(refused, { problem: 'spent' });
  await answer(refused, { status: 'connected' });
  await answer(late, { status: 'pending' });
  const relations = [];
  for (const { did } of [taken, refused, late]) relations.push(ok(await trust.status(agent, did)).relation);
  assert.deepEqual(relations, ['direct', 'none', 'none']);
  const states = new Map((await trust.connect.asked(agent)).map(({ did, state, problem }) => [did, [state, problem]]));
  assert.deepEqual(
    [taken, refused, late].map(({ did }) => states.get(did)),
    [
      ['connected', null],
      ['failed', 'spent'],
      ['pending', null],
    ],
  );
});

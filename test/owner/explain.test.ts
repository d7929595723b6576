import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { adminMachine } from '../cli/support.ts';
import { person } from '../support/gateway.ts';
import { billing, linkedPair } from '../support/pair.ts';
import { rows, startPeer } from '../support/peer.ts';
import { ask, befriend, putPolicy, type Row } from './support.ts';

const { acme, globex } = await linkedPair({ after });
const peer = await startPeer({ after });
const eve = peer.identity('agents:eve');
const mallory = peer.identity('agents:mallory');
const reviewer = 'acme/dev/joel/reviewer';
let ana: Awaited<ReturnType<typeof person>>;

before(async () => {
  ana = await person(acme, 'ana');
  await ana.announce('acme/general/ana/notes');
  await befriend(acme, eve, 'Eve');
  await putPolicy(acme, 'peer.eve:\n  deny:\n    - ask: "personal:*"\n  default: ask_user\n');
});

const explained = async (of: Record<string, string>, gateway = acme, token?: string): Promise<Row> =>
  gateway.call('GET', `/api/v1/explain?${new URLSearchParams(of)}`, token === undefined ? {} : { token });
const gate = (json: Row, name: string): Row => json.gates.find((each: Row) => each.gate === name);

it('says which gate would refuse and which rule decided, and leaves no trace', async () => {
  const before = await rows(acme);
  const stranger = (await explained({ from: mallory.did, to: reviewer })).json;
  assert.deepEqual(
    [stranger.outcome, stranger.stopped_by, stranger.code],
    ['pending_connection', 'consent', 'pending_connection'],
  );
  assert.match(gate(stranger, 'consent').rules[0], /no contact/);
  assert.equal(gate(stranger, 'policy').result, 'passes', 'and what would come behind it');
  assert.equal(gate(stranger, 'authenticate').result, 'assumed');

  const asks = (await explained({ from: eve.did, to: reviewer, action: 'ask:technical' })).json;
  assert.deepEqual([asks.outcome, asks.stopped_by], ['pending_approval', 'policy']);
  assert.match(gate(asks, 'consent').rules[0], /contact .*: Eve/);
  assert.match(gate(asks, 'policy').rules[0], /your policy, peer\.eve, line 4: default ask_user/);

  const denied = (await explained({ from: eve.did, to: reviewer, action: 'ask:personal:age' })).json;
  assert.deepEqual([denied.outcome, denied.code], ['refused', 'policy_denied']);
  assert.match(gate(denied, 'policy').rules[0], /line 3: deny ask:personal:\*/);

  const own = (await explained({ from: 'acme/general/ana/notes', to: reviewer })).json;
  assert.deepEqual([own.outcome, own.stopped_by], ['refused', 'policy']);
  assert.match(gate(own, 'policy').words, /takes requests only from team dev/);
  assert.deepEqual(await rows(acme), before);
});

it('follows the door of the org: link, exposure and allow', async () => {
  const through = (await explained({ from: reviewer, to: billing }, globex)).json;
  assert.equal(through.outcome, 'delivered');
  assert.match(gate(through, 'link').rules[0], /the link with acme is active and exposes erp\/bob\/billing/);
  assert.match(gate(through, 'consent').rules[0], /`allow`: org:acme/);
  await globex.admin.announce('globex/erp/bob/hidden', { allow: ['org:acme'] });
  const hidden = (await explained({ from: reviewer, to: 'globex/erp/bob/hidden' }, globex)).json;
  assert.deepEqual([hidden.outcome, hidden.stopped_by, hidden.code], ['refused', 'link', 'address_not_found']);
  assert.match(gate(hidden, 'link').rules[0], /exposes erp\/bob\/billing, not erp\/bob\/hidden/);
  assert.equal((await explained({ from: 'initech/a/b/c', to: billing }, globex)).status, 400);
});

it('is told to the owner and to admins alone', async () => {
  const of = { from: mallory.did, to: reviewer };
  assert.equal((await explained(of, acme, ana.token)).status, 404);
  assert.equal((await explained({ ...of, to: 'acme/dev/joel/nobody' })).status, 404);
  assert.equal((await explained({ from: mallory.did, to: 'acme/general/ana/notes' })).status, 200, 'joel is admin');
  assert.equal((await acme.call('GET', '/api/v1/explain', { token: null })).status, 401);
  assert.equal((await explained({ from: 'did:nothing', to: reviewer })).status, 400);
  assert.equal((await explained({ from: mallory.did, to: reviewer, action: 'A B' })).status, 400);
});

it('agrees with what happens', async () => {
  const { json } = await ask(acme, eve, 'x');
  assert.equal((json.result.task ?? json.result).status.state, 'TASK_STATE_AUTH_REQUIRED');
});

it('on the command line, for people and for programs', async () => {
  const laptop = await adminMachine({ after }, acme);
  const args = ['explain', '--from', eve.did, '--to', reviewer, '--action', 'ask:personal:age'];
  const { stdout } = await laptop.ok(args);
  assert.match(stdout, /^ask:personal:age from did:web:.* to acme\/dev\/joel\/reviewer would be refused\./);
  assert.match(stdout, /The gate that decides is policy \(policy_denied\)\./);
  assert.match(stdout, /policy +REFUSES +policy_denied: .* your policy, peer\.eve, line 3: deny ask:personal:\*/);
  assert.equal((await laptop.ok([...args, '--json'])).json.stopped_by, 'policy');
  const none = await laptop.run(['explain', '--from', eve.did, '--to', 'acme/dev/joel/nobody']);
  assert.equal(none.code, 1);
  assert.match(none.stderr, /no agent by that name/);
});

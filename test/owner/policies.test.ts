import assert from 'node:assert/strict';
import { after, before, beforeEach, it } from 'node:test';
import fc from 'fast-check';
import { type Asker, judge, type Standing } from '../../src/gates/policies/evaluate.ts';
import { matches } from '../../src/gates/policies/glob.ts';
import { readPolicy } from '../../src/gates/policies/text.ts';
import { issueCapability } from '../../src/identity/capability.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { person, team, testGateway } from '../support/gateway.ts';
import { type Identity, startPeer } from '../support/peer.ts';
import { ask, befriend, outcome, putPolicy } from './support.ts';

const acme = await testGateway({ after });
const peer = await startPeer({ after });
let ana: Awaited<ReturnType<typeof person>>;
let eve: Identity;
let contact: string;
let count = 0;

before(async () => {
  await team(acme, 'dev', ['joel']);
  await acme.admin.announce('acme/dev/joel/reviewer');
  ana = await person(acme, 'ana');
});
beforeEach(async () => {
  await putPolicy(acme, '');
  eve = peer.identity(`agents:eve${count++}`);
  contact = await befriend(acme, eve, 'ACME Industries');
});

const document = `peer.acme-industries:
  allow:
    - read: "src/modbus/**"
    - ask: "technical:*"
  deny:
    - read: ".env"
    - read: "**/secrets/**"
    - ask: "personal:*"
  always_consult: true

peer.unknown:
  default: ask_user
  require_human_in_loop: true
`;

/** A token of eve's own whose scope names what she asks. */
const capability = (...scope: string[]): string =>
  `Capability ${issueCapability(
    { iss: eve.did, sub: eve.did, aud: acme.did, scope, exp: Math.floor(Date.now() / 1000) + 600 },
    eve.key,
  )}`;
const asked = async (text: string, ...scope: string[]) =>
  outcome(await ask(acme, eve, text, scope.length > 0 ? { authorization: capability(...scope) } : {}));

it("the document's own policy decides by what the capability says is asked", async () => {
  assert.equal((await putPolicy(acme, document)).status, 200);
  assert.equal(await asked('x'), 'TASK_STATE_SUBMITTED');
  assert.equal(await asked('x', 'ask:technical:modbus'), 'TASK_STATE_SUBMITTED');
  assert.equal(await asked('x', 'ask:technical'), 'TASK_STATE_SUBMITTED');
  assert.equal(await asked('x', 'ask:personal:salary'), 'policy_denied');
  assert.equal(await asked('x', 'ask:personal'), 'policy_denied');
  assert.equal(await asked('x', 'ask:technical', 'ask:personal:age'), 'policy_denied', 'the strictest counts');
  const { json } = await acme.call('GET', '/api/v1/policies');
  assert.equal(json.policy, document);
  const yaml = await acme.call('GET', '/api/v1/policies', { headers: { accept: 'application/yaml' } });
  assert.equal(yaml.text, document);
});

it("a contact's own rules come before the owner's, but a deny of either denies", async () => {
  const put = (body: unknown) => acme.call('POST', `/api/v1/contacts/${contact}/policies`, { body });
  assert.equal(
    (await put({ default: 'ask_user', rules: [{ action: 'ask:technical', decision: 'allow' }] })).status,
    200,
  );
  assert.equal(await asked('x'), 'TASK_STATE_AUTH_REQUIRED');
  assert.equal(await asked('x', 'ask:technical:a'), 'TASK_STATE_SUBMITTED');
  await putPolicy(acme, `peer.${eve.did}:\n  deny:\n    - ask: "technical:*"\n`);
  assert.equal(await asked('x', 'ask:technical:a'), 'policy_denied');
  assert.equal((await put({ default: 'allow', rules: [{ action: '*', decision: 'perhaps' }] })).status, 400);
  const other = await acme.call('POST', `/api/v1/contacts/${contact}/policies`, { token: ana.token, body: {} });
  assert.equal(other.status, 404);
});

it('the JSON form: the first rule that matches, by the beginning of the action', async () => {
  const policy = {
    default: 'deny',
    rules: [
      { action: 'ask:technical', decision: 'allow' },
      { action: 'ask', peer_did: eve.did, decision: 'ask_user' },
    ],
  };
  assert.equal((await acme.call('PUT', '/api/v1/policies', { body: policy })).status, 200);
  assert.equal(await asked('x', 'ask:technical'), 'TASK_STATE_SUBMITTED');
  assert.equal(await asked('x'), 'TASK_STATE_AUTH_REQUIRED');
  const bob = peer.identity(`agents:bob${count}`);
  await befriend(acme, bob);
  assert.equal(outcome(await ask(acme, bob, 'x')), 'policy_denied');
});

it('what cannot be read is refused with line and column, and what stood before stands', async () => {
  await putPolicy(acme, document);
  const bad: Array<[string, string, number, number]> = [
    ['a syntax error', 'peer.a:\n  allow: [\n', 3, 1],
    ['an unknown section', 'peer.a:\n  default: allow\nowner.b:\n  default: deny\n', 3, 1],
    ['an unknown key', 'peer.a:\n  default: allow\n  allways: true\n', 3, 3],
    ['an unknown action', 'peer.a:\n  allow:\n    - fly: "*"\n', 3, 7],
    ['a verdict that is none', 'peer.a:\n  default: maybe\n', 2, 12],
    ['a catastrophic glob', `peer.a:\n  deny:\n    - read: "${'a*'.repeat(40)}b"\n`, 3, 13],
    ['a duplicate key', 'peer.a:\n  default: allow\npeer.a:\n  default: deny\n', 3, 1],
    ['a tag', 'peer.a: !!js/function "x"\n', 1, 9],
    ['text for a flag', 'peer.a:\n  always_consult: "yes"\n', 2, 19],
    ['a list for the whole', '- peer.a\n', 1, 1],
    ['an alias to nowhere', 'peer.a: *b\n', 1, 9],
  ];
  for (const [what, yaml, line, column] of bad) {
    const { status, json } = await putPolicy(acme, yaml);
    assert.equal(status, 400, what);
    assert.equal(json.error.code, 'validation_error', what);
    assert.deepEqual(
      [json.error.details.line, json.error.details.column],
      [line, column],
      `${what}: ${json.error.details.policy}`,
    );
  }
  const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${Array.from({ length: 30 }, (_, i) => `peer.p${i}: {allow: *a}\n`).join('')}`;
  assert.equal((await putPolicy(acme, bomb)).status, 400);
  assert.equal((await putPolicy(acme, `peer.a:\n  default: allow #${'x'.repeat(70_000)}`)).status, 400);
  assert.equal(
    (await acme.call('PUT', '/api/v1/policies', { body: 'x', headers: { 'content-type': 'image/png' } })).status,
    415,
  );
  assert.equal((await acme.call('GET', '/api/v1/policies')).json.policy, document);
});

const nobody: Asker = { names: ['did:web:x.test:agents:bob'], domain: 'x.test', contact: { alias: 'Bob' }, org: null };
const standing = (yaml: string, more: Partial<Standing> = {}): Standing => {
  const owner = readPolicy(yaml, 'owner');
  if (owner instanceof Refusal) throw new Error(owner.words);
  return { decided: [], contact: null, owner, ...more };
};

it('the order: deny, L1, L3, human in the loop, the most specific, default', () => {
  const judged = (action: string, yaml: string, more?: Partial<Standing>) =>
    judge(action, nobody, standing(yaml, more));
  const both = 'peer.*:\n  allow:\n    - ask: "**"\n  deny:\n    - ask: "x:*"\n';
  assert.equal(judged('ask:x:y', both).verdict, 'deny');
  assert.match(judged('ask:x:y', both).rule, /your policy, peer\.\*, line 5: deny ask:x:\*/);
  assert.equal(judged('ask:z', both).verdict, 'allow');
  assert.equal(judged('query:z', 'peer.*:\n  default: ask_user\n').verdict, 'allow');
  assert.equal(judged('query:z', 'peer.*:\n  deny:\n    - query: "**"\n').verdict, 'deny');
  assert.equal(judged('payment:1', 'peer.*:\n  allow:\n    - payment: "**"\n').verdict, 'ask_user');
  assert.equal(judged('delete_everything', 'peer.*:\n  default: allow\n').verdict, 'ask_user');
  assert.equal(judged('ask', 'peer.bob:\n  require_human_in_loop: true\n  always_consult: true\n').verdict, 'ask_user');
  assert.equal(judged('ask', 'peer.*:\n  default: deny\npeer.x.test:\n  default: ask_user\n').verdict, 'ask_user');
  assert.equal(judged('ask', 'peer.unknown:\n  default: deny\n').verdict, 'allow', 'a contact is not unknown');
  assert.equal(
    judge('ask', { ...nobody, contact: null }, standing('peer.unknown:\n  default: deny\n')).verdict,
    'deny',
  );
  const decided = [{ action: 'ask', peerDid: nobody.names[0]!, decision: 'allow' as const, createdAt: 0 }];
  assert.equal(judged('ask:q', 'peer.*:\n  default: deny\n', { decided }).verdict, 'allow');
  assert.equal(judged('asking', 'peer.*:\n  default: deny\n', { decided }).verdict, 'deny');
});

it('globs: separators hold a star, edges may be missing, and nothing is slow', () => {
  const yes = [
    ['src/**', 'src/a/b'],
    ['src/**', 'src'],
    ['**/secrets/**', 'secrets/x'],
    ['**/secrets/**', 'a/secrets/b/c'],
    ['technical:*', 'technical'],
    ['a?c', 'abc'],
    ['*', 'x'],
    ['.env', '.env'],
  ];
  const no = [
    ['src/*', 'src/a/b'],
    ['.env', 'a/.env'],
    ['.env', '.envx'],
    ['technical:*', 'technically'],
    ['a?c', 'a/c'],
    ['*', 'a/b'],
  ];
  for (const [pattern, text] of yes) assert.ok(matches(pattern!, text!), `${pattern} ${text}`);
  for (const [pattern, text] of no) assert.ok(!matches(pattern!, text!), `${pattern} ${text}`);
  const start = performance.now();
  assert.ok(!matches(`${'**a'.repeat(16)}b`, 'a'.repeat(5_000)));
  assert.ok(performance.now() - start < 1_000);
  fc.assert(fc.property(fc.string(), (text) => matches('**', text) && (/[*?]/.test(text) || matches(text, text))));
  fc.assert(fc.property(fc.string(), (text) => void readPolicy(text, 'owner')));
});

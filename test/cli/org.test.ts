import assert from 'node:assert/strict';
import { it } from 'node:test';
import { eventually, testGateway } from '../support/gateway.ts';
import { adminMachine, machine } from './support.ts';

it('orgs, teams and invitations, from nothing to a second person', async (t) => {
  const gateway = await testGateway(t);
  const joel = await adminMachine(t, gateway);
  await joel.ok(['team', 'create', 'dev']);
  await joel.ok(['team', 'add', 'dev', 'joel']);
  const { code } = (await joel.ok(['org', 'invite', 'ana@acme.test', '--team', 'dev', '--json'])).json;
  const ana = await machine(t);
  const login = await ana.ok(['login', gateway.url, '-'], { input: code });
  assert.match(login.stdout, /Next: gatehouse org join acme --me <you>/);
  const early = await ana.run(['agent', 'send', 'joel/cli', 'hi']);
  assert.match(early.stderr, /in no organisation yet/);
  await ana.ok(['org', 'join', 'acme', '--me', 'ana']);
  const me = (await ana.ok(['me', '--json'])).json;
  assert.equal(me.seat.user, 'ana');
  assert.ok(me.orgs[0].teams.includes('dev'));
  assert.match((await ana.ok(['org', 'usage'])).stdout, /messages_per_day/);
  assert.ok((await ana.ok(['org', 'usage', 'acme', '--json'])).json.plan);
  await ana.ok(['org', 'create', 'ana-labs', '--me', 'ana']);
  assert.equal((await ana.ok(['me', '--json'])).json.orgs.length, 2);
  const refused = await ana.run(['team', 'create', 'x', '--org', 'acme', '--json']);
  assert.equal(refused.code, 1);
  assert.equal(JSON.parse(refused.stderr).code, 'forbidden');
});

it('a link from proposal to revocation, and a sealed question across two gateways', async (t) => {
  const [acme, globex] = await Promise.all([testGateway(t), testGateway(t, { org: 'globex', admin: 'bob' })]);
  const [joel, bob] = await Promise.all([adminMachine(t, acme), adminMachine(t, globex)]);
  assert.match((await joel.ok(['link', 'ls'])).stdout, /none yet/);
  assert.match((await joel.ok(['link', 'propose', globex.authority])).stdout, /proposed/);
  await bob.ok(['link', 'accept', acme.authority]);
  const exposed = await bob.ok(['link', 'expose', 'acme', 'general/bob/billing']);
  assert.match(exposed.stdout, /you expose +agent general\/bob\/billing/);
  const run = await bob.program("console.log('for ' + input.from)");
  await bob.start(['agent', 'listen', 'billing', '--run', run, '--allow', 'org:acme']).line(/listening/);
  await eventually('the exposure is known at acme', async () =>
    (await joel.ok(['link', 'ls'])).stdout.includes('they expose  agent general/bob/billing'),
  );
  const asked = await joel.ok(['agent', 'send', 'globex/general/bob/billing', 'paid?', '--wait']);
  assert.equal(asked.stdout, 'for acme/general/joel/cli\n');
  assert.match(asked.stderr, /\(signed, sealed\)/);
  assert.match(asked.stderr, /sealed, verified as globex\/bob/);

  const rules = await bob.ok(['link', 'rules', 'acme', '--no-signed-only', '--ips', '127.0.0.1,::1', '--json']);
  assert.equal(rules.json.rules.signed_only, false);
  assert.equal((await bob.run(['link', 'rules', 'acme'])).code, 2);
  assert.match((await bob.ok(['link', 'unexpose', 'acme', 'general/bob/billing'])).stdout, /you expose +nothing/);
  assert.match((await bob.ok(['link', 'revoke', 'acme'])).stdout, /revoked/);
});

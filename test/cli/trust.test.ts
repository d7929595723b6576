import assert from 'node:assert/strict';
import { it } from 'node:test';
import { readIntroduction } from '../../src/identity/introduction.ts';
import { readInvitation } from '../../src/identity/invitation.ts';
import { generateSeed, keyPair } from '../../src/identity/keys.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { testGateway } from '../support/gateway.ts';
import { adminMachine } from './support.ts';

it('an owner introduces, invites, sets what strangers may do, and keeps a room', async (t) => {
  const gateway = await testGateway(t);
  const joel = await adminMachine(t, gateway);
  await gateway.call('PUT', '/redsyn/v1/agents/acme/general/joel/desk', { body: { listening: true } });
  const [one, two] = [keyPair(generateSeed()).did, keyPair(generateSeed()).did];

  const shown = (await joel.ok(['trust', 'show', 'desk', '--json'])).json;
  assert.deepEqual([shown.connect, shown.privacy, shown.asked], ['filtered', 'self', []]);
  await joel.ok(['trust', 'set', 'desk', '--connect', 'closed', '--privacy', 'trusted']);
  assert.match((await joel.ok(['trust', 'show', 'desk'])).stdout, /connect +closed[\s\S]*privacy +trusted/);
  assert.equal((await joel.run(['trust', 'set', 'desk'])).code, 2);

  const introduced = await joel.ok([
    'trust',
    'introduce',
    'desk',
    '--subject',
    one,
    '--to',
    two,
    '--level',
    '400',
    '--valid-for',
    '1h',
  ]);
  const credential = readIntroduction(introduced.stdout.trim(), { subject: one, introducedTo: two, now: Date.now() });
  assert.ok(!(credential instanceof Refusal));
  assert.equal(credential.issuer, shown.did);
  await joel.ok(['trust', 'revoke', 'desk', credential.id]);
  assert.match((await joel.ok(['trust', 'introductions', 'desk'])).stdout, /issued .* revoked/);
  const missing = await joel.run(['trust', 'revoke', 'desk', 'urn:uuid:0']);
  assert.deepEqual([missing.code, /no such introduction/.test(missing.stderr)], [1, true]);

  const invited = (await joel.ok(['trust', 'invite', 'desk', '--purpose', 'the fair', '--json'])).json;
  assert.ok(!(readInvitation(JSON.stringify(invited.card), Date.now()) instanceof Refusal));
  assert.match((await joel.ok(['trust', 'invites', 'desk'])).stdout, /the fair +until/);
  await joel.ok(['trust', 'uninvite', 'desk', invited.id]);
  assert.match((await joel.ok(['trust', 'invites', 'desk'])).stdout, /revoked/);
  assert.match(
    (await joel.ok(['trust', 'peer', 'desk', one, '--expertise', 'tax', 'law'])).stdout,
    /level 1000; tax, law/,
  );
  assert.match((await joel.run(['trust', 'show', 'nobody'])).stderr, /no such agent/);

  await joel.ok(['room', 'create', 'lobby', '--join', 'open', '--description', 'For all']);
  await joel.ok(['room', 'add', 'lobby', 'desk']);
  assert.match((await joel.ok(['room', 'members', 'lobby'])).stdout, /acme\/general\/joel\/desk/);
  await joel.ok(['room', 'remove', 'lobby', 'desk']);
  assert.match((await joel.ok(['room', 'members', 'lobby'])).stdout, /nobody yet/);
  assert.equal((await joel.run(['room', 'create', 'lobby', '--join', 'anybody'])).code, 2);
});

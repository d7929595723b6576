import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  addressOfDid,
  agentDid,
  didOfAddress,
  instanceDid,
  ownerDid,
  ownerOfDid,
  readDid,
} from '../../src/directory/dids.ts';
import { formatAddress, readAddress } from '../../src/directory/names.ts';
import { Refusal } from '../../src/lib/refusal.ts';

const name = fc.stringMatching(/^[a-z0-9._-]{1,40}$/).filter((text) => text !== '.' && text !== '..');
const authority = fc
  .tuple(fc.constantFrom('acme.com', 'localhost', 'gw.globex.example'), fc.option(fc.integer({ min: 1, max: 65_535 })))
  .filter(([, port]) => port !== 443)
  .map(([host, port]) => (port === null ? host : `${host}:${port}`));

function address(text: string) {
  const read = readAddress(text);
  assert.ok(!(read instanceof Refusal), text);
  return read;
}

test('the table of design §3', () => {
  assert.equal(instanceDid('acme.com'), 'did:web:acme.com');
  assert.equal(ownerDid('acme.com', { org: null, user: 'ana' }), 'did:web:acme.com:agents:ana');
  const close = { user: 'ana', team: 'finance', agent: 'close' };
  assert.equal(agentDid('acme.com', { org: null, ...close }), 'did:web:acme.com:agents:ana:finance:close');
  assert.equal(agentDid('acme.com', { org: 'lab', ...close }), 'did:web:acme.com:orgs:lab:agents:ana:finance:close');
  assert.equal(instanceDid('localhost:8081'), 'did:web:localhost%3A8081');
});

test('every DID that is written is read back, and tells its owner', () => {
  fc.assert(
    fc.property(authority, fc.option(name), name, name, name, (host, org, user, team, agent) => {
      const owner = ownerDid(host, { org, user });
      assert.deepEqual(readDid(owner), { authority: host, kind: 'owner', org, user });
      const did = agentDid(host, { org, user, team, agent });
      assert.deepEqual(readDid(did), { authority: host, kind: 'agent', org, user, team, agent });
      assert.deepEqual(readDid(`${owner}:agent`), { authority: host, kind: 'default', org, user });
      assert.equal(ownerOfDid(did), owner);
      assert.equal(ownerOfDid(`${owner}:agent`), owner);
      assert.equal(ownerOfDid(instanceDid(host)), null);
    }),
  );
});

test('address -> DID -> address', () => {
  fc.assert(
    fc.property(authority, name, name, name, (host, user, team, agent) => {
      fc.pre(!(team === 'agents' && agent === 'agent'));
      const text = `${host}/${team}/${user}/${agent}`;
      const did = didOfAddress(address(text));
      assert.equal(did, agentDid(host, { org: null, user, team, agent }));
      assert.equal(addressOfDid(did!), text);
    }),
  );
});

test('a foreign agent without a team is h/agents/u/agent, a port has a second spelling', () => {
  assert.equal(addressOfDid('did:web:h.example:agents:u:agent'), 'h.example/agents/u/agent');
  assert.equal(addressOfDid('did:web:h.example:agents:u'), 'h.example/agents/u/agent');
  assert.equal(didOfAddress(address('h.example/agents/u/agent')), 'did:web:h.example:agents:u:agent');
  assert.equal(
    didOfAddress(address('localhost-8081/erp/bob/billing')),
    'did:web:localhost%3A8081:agents:bob:erp:billing',
  );
  assert.equal(didOfAddress(address('globex/erp/bob/billing')), null);
});

test('what names nobody on a Gatehouse', () => {
  for (const did of [
    'did:web:acme.com:agents',
    'did:web:acme.com:agents:ana:finance',
    'did:web:acme.com:agents:ana:finance:close:more',
    'did:web:acme.com:people:ana',
    'did:web:acme.com:orgs:lab',
    'did:web:acme.com:orgs',
    'did:web:acme.com:agents:..:finance:close',
    'did:web:acme.com:agents:Ana',
    'did:web:acme.com#key-1',
    'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK',
    'acme.com/finance/ana/close',
  ]) {
    assert.equal(readDid(did), null, did);
    assert.equal(addressOfDid(did), null, did);
  }
  // Its handle alone is not unique in the world.
  assert.equal(addressOfDid('did:web:acme.com:orgs:lab:agents:ana:finance:close'), null);
});

test('whatever text comes, reading does not throw', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      readDid(text);
      readDid(`did:web:${text}`);
      const read = readAddress(text);
      if (!(read instanceof Refusal)) assert.equal(formatAddress(read), text);
    }),
  );
});

import assert from 'node:assert/strict';
import { after, it } from 'node:test';
import { ManualClock } from '../../src/lib/clock.ts';
import { team, testGateway } from '../support/gateway.ts';
import { startPeer } from '../support/peer.ts';
import { ask, befriend, outcome, time } from './support.ts';

const clock = new ManualClock();
time.now = () => clock.now();
const acme = await testGateway({ after }, { clock, env: { GATEHOUSE_RATE_PEER: '10' } });
await team(acme, 'dev', ['joel']);
await acme.admin.announce('acme/dev/joel/reviewer');
const peer = await startPeer({ after });
const eve = peer.identity('agents:eve');

it('the budget of a domain is one for all replicas, and begins anew with the minute', async () => {
  await befriend(acme, eve);
  clock.advance(60_000);
  const { rows } = await acme.database.db.query<{ n: number }>('select count(*)::int as n from rate_windows');
  assert.ok(rows[0]!.n > 0);
  // What another replica counted.
  await acme.database.db.query(
    `insert into rate_windows (key, minute, shard, used) values ($1, $2, 99, 8) on conflict do nothing`,
    [`domain message ${peer.authority}`, Math.floor(clock.now() / 60_000)],
  );
  const said: string[] = [];
  for (let i = 0; i < 4; i++) said.push(outcome(await ask(acme, eve, 'x')));
  assert.deepEqual(said, ['TASK_STATE_SUBMITTED', 'TASK_STATE_SUBMITTED', 'rate_limited', 'rate_limited']);
  clock.advance(60_000);
  assert.equal(outcome(await ask(acme, eve, 'x')), 'TASK_STATE_SUBMITTED');
});

it('who is listed by nobody has half of it, so the other half is left for who is', async () => {
  clock.advance(60_000);
  const said: string[] = [];
  for (let i = 0; i < 7; i++) said.push(outcome(await ask(acme, peer.identity(`agents:m${i}`), 'x')));
  assert.deepEqual(said, [...Array(5).fill('pending_connection'), 'rate_limited', 'rate_limited']);
  assert.equal(outcome(await ask(acme, eve, 'x')), 'TASK_STATE_SUBMITTED');
});

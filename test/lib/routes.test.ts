import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Route } from '../../src/lib/http.ts';
import { RouteTable } from '../../src/lib/routes.ts';

const route = (method: Route['method'], path: string): Route => ({
  method,
  path,
  handler: async () => ({ status: 200 }),
});

const table = new RouteTable([
  route('POST', '/'),
  route('POST', '/a2a/v1'),
  route('POST', '/a2a/v1/{tenant}'),
  route('POST', '/a2a/v1/messages'),
  route('POST', '/a2a/v1/message:send'),
  route('GET', '/a2a/v1/tasks'),
  route('GET', '/a2a/v1/tasks/{id}'),
  route('POST', '/a2a/v1/tasks/{id}:cancel'),
  route('GET', '/a2a/v1/tasks/{task}:subscribe'),
  route('POST', '/a2a/v1/{tenant}/message:send'),
  route('GET', '/a2a/v1/{tenant}/tasks'),
  route('POST', '/a2a/v1/{tenant}/tasks/{id}:cancel'),
  route('DELETE', '/orgs/{org}/links/{other}'),
]);

/** `template name=value …` of what a request meets. */
function meets(method: string, path: string): string | undefined {
  const found = table.find(path)?.route(method);
  return (
    found && [found.route.path, ...Object.entries(found.params).map(([name, value]) => `${name}=${value}`)].join(' ')
  );
}

test('A2A REST paths: literal colons, verbs after an id, tenants with colons', () => {
  assert.equal(meets('POST', '/a2a/v1/message:send'), '/a2a/v1/message:send');
  assert.equal(meets('POST', '/a2a/v1/message%3Asend'), '/a2a/v1/message:send');
  assert.equal(meets('POST', '/a2a/v1/tasks/t-1:cancel'), '/a2a/v1/tasks/{id}:cancel id=t-1');
  assert.equal(meets('POST', '/a2a/v1/tasks/a:b:cancel'), '/a2a/v1/tasks/{id}:cancel id=a:b');
  assert.equal(meets('GET', '/a2a/v1/tasks/t-1:subscribe'), '/a2a/v1/tasks/{task}:subscribe task=t-1');
  assert.equal(meets('GET', '/a2a/v1/tasks/t-1'), '/a2a/v1/tasks/{id} id=t-1');
  assert.equal(meets('GET', '/a2a/v1/tasks/:cancel'), '/a2a/v1/tasks/{id} id=:cancel');
  assert.equal(meets('GET', '/a2a/v1/ana:finance:close/tasks'), '/a2a/v1/{tenant}/tasks tenant=ana:finance:close');
  assert.equal(meets('POST', '/a2a/v1/ana:finance:close'), '/a2a/v1/{tenant} tenant=ana:finance:close');
  assert.equal(meets('POST', '/a2a/v1/ana/tasks/7:cancel'), '/a2a/v1/{tenant}/tasks/{id}:cancel tenant=ana id=7');
});

test('a literal wins, and where it leads nowhere the capture is tried', () => {
  assert.equal(meets('POST', '/a2a/v1/messages'), '/a2a/v1/messages');
  assert.equal(meets('GET', '/a2a/v1/messages/tasks'), '/a2a/v1/{tenant}/tasks tenant=messages');
  assert.equal(meets('GET', '/a2a/v1/tasks/tasks'), '/a2a/v1/tasks/{id} id=tasks');
  // The path is decided before the method: this one is a task by a strange name, and takes no POST.
  assert.equal(meets('POST', '/a2a/v1/tasks/message:send'), undefined);
});

test('segments are split before they are decoded', () => {
  assert.equal(
    meets('DELETE', '/orgs/acme/links/localhost%3A8081'),
    '/orgs/{org}/links/{other} org=acme other=localhost:8081',
  );
  assert.equal(meets('DELETE', '/orgs/a%2Fb/links/%C3%A9'), '/orgs/{org}/links/{other} org=a/b other=é');
  assert.equal(table.find('/orgs/a/b/links/c'), undefined);
  assert.equal(table.find('/a2a%2Fv1'), undefined);
});

test('a slash at the end makes no difference, an empty segment does', () => {
  assert.equal(meets('POST', '/a2a/v1/'), '/a2a/v1');
  assert.equal(meets('POST', '/'), '/');
  for (const path of ['//', '/a2a//v1', '/orgs//links/x', '/a2a/v1//', '/A2A/v1', '/a2a'])
    assert.equal(table.find(path), undefined, path);
});

test('methods of a path are known, and no two routes are the same', () => {
  assert.deepEqual(table.find('/a2a/v1/tasks/1:cancel')?.methods, ['POST']);
  assert.equal(meets('GET', '/a2a/v1/tasks/1:cancel'), undefined);
  assert.throws(() => new RouteTable([route('GET', '/x/{a}'), route('GET', '/x/{b}/')]), /two routes for GET/);
});

// A reporter of node:test that is quiet about what passes: a line per file, every failure in full. Writes the counts to $TEST_COUNTS.
import { writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { inspect } from 'node:util';

const wraps = ['testCodeFailure', 'subtestsFailed', 'cancelledByParent', 'testTimeoutFailure', 'hookFailed'];

export default async function* reporter(source) {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  const files = new Map();
  const said = new Map();
  for await (const { type, data } of source) {
    if (type === 'test:stdout' || type === 'test:stderr')
      said.set(data.file, (said.get(data.file) ?? '') + data.message);
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const path = data.file ?? data.name;
    const file = files.get(path) ?? { passed: 0, failed: 0, ms: 0 };
    files.set(path, file);
    // The file itself: a test only when it could not be run.
    const isFile = data.nesting === 0 && (data.name === data.file || data.name.endsWith('.test.js'));
    if (data.nesting === 0 && !isFile) file.ms += data.details.duration_ms;
    if (type === 'test:fail' && data.todo === undefined && data.skip === undefined) {
      const onlyChildren = data.details.error?.failureType === 'subtestsFailed';
      if (data.details.type !== 'suite' || !onlyChildren) {
        counts.failed += 1;
        file.failed += 1;
      }
      if (!onlyChildren) yield failure(data);
    } else if (isFile || data.details.type === 'suite') {
      // Counted by what it holds.
    } else if (data.skip !== undefined) {
      counts.skipped += 1;
    } else {
      counts.passed += 1;
      file.passed += 1;
    }
  }
  for (const [path, { passed, failed, ms }] of [...files].sort()) {
    const where = relative(process.cwd(), path);
    yield `${failed > 0 ? 'FAILED' : 'ok    '} ${where}  ${passed} passed${failed > 0 ? `, ${failed} failed` : ''}  ${(ms / 1000).toFixed(1)} s\n`;
    if (failed > 0 && said.has(path)) yield `${said.get(path).slice(-8_000).replace(/^/gm, '    | ')}\n`;
  }
  if (process.env.TEST_COUNTS) writeFileSync(process.env.TEST_COUNTS, JSON.stringify(counts));
}

function failure(data) {
  const { error } = data.details;
  const cause = wraps.includes(error?.failureType) && error.cause !== undefined ? error.cause : error;
  const text =
    cause instanceof Error ? (cause.stack ?? cause.message) : typeof cause === 'string' ? cause : inspect(cause);
  const place = data.file ? `${relative(process.cwd(), data.file)}:${data.line ?? 0}` : '';
  const difference =
    cause?.code === 'ERR_ASSERTION' && !text.includes('expected')
      ? `\nactual: ${inspect(cause.actual, { depth: 5 })}\nexpected: ${inspect(cause.expected, { depth: 5 })}`
      : '';
  return `\nFAILED: ${data.name}  (${place})\n${`${text}${difference}`.replace(/^/gm, '    ')}\n\n`;
}

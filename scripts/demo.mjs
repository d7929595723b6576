// `npm run demo [-- --keep]`: builds, then runs the demo in this very process.
import { join } from 'node:path';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import { build, root } from './build.mjs';

if (await build('program')) await import(pathToFileURL(join(root, 'dist/src/cli/demo.js')).href);
else process.exitCode = 1;

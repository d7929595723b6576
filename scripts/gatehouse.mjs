// `npm run -s gatehouse -- …`: builds when needed, then becomes the command, in this very process, so that signals reach it.
import { join } from 'node:path';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import { build, root } from './build.mjs';

if (await build('program')) {
  const main = join(root, 'dist/src/main.js');
  process.setSourceMapsEnabled(true);
  process.argv[1] = main;
  await import(pathToFileURL(main).href);
} else {
  process.exitCode = 1;
}

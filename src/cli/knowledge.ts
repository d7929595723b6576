import { lstat, readdir, readFile } from 'node:fs/promises';
import { basename, extname, join, relative, sep } from 'node:path';
import { Command } from 'commander';
import { GatehouseError } from '../client/index.ts';
import { CliError, usage } from './errors.ts';
import { command, type JsonOption, print, printable, table } from './output.ts';
import { callOwnerApi } from './owner-api.ts';

interface Base {
  id: string;
  name: string;
  shared_with_peers: boolean;
  documents: number;
  bytes: number;
}

interface Document {
  name: string;
  url: string | null;
  bytes: number;
  chunks?: number;
}

interface Found {
  knowledge: string;
  document: string;
  place: string;
  text: string;
}

interface Remembered {
  id: string;
  origin: string;
  source: string;
  text: string;
  created_at: string;
}

/** Taken from a folder; a file that is named is taken whatever it is called. */
const textual = new Set([
  '.txt',
  '.md',
  '.markdown',
  '.rst',
  '.adoc',
  '.org',
  '.csv',
  '.tsv',
  '.json',
  '.yaml',
  '.yml',
  '.xml',
  '.log',
]);
const mostFiles = 2_000;
const mostBytes = 1024 * 1024;

/** `gatehouse knowledge …`: what your agents with a model may look into. */
export function knowledgeCommand(): Command {
  return new Command('knowledge')
    .description('Documents that your agents with a model look into; others are answered from those that you share')
    .addCommand(addCommand())
    .addCommand(
      command('list', 'Your knowledge bases, or the documents of one')
        .argument('[base]')
        .action(async (base: string | undefined, options: JsonOption) => {
          if (base === undefined) {
            const { knowledge } = await callOwnerApi<{ knowledge: Base[] }>('GET', '/knowledge');
            const none = 'none yet: gatehouse knowledge add <base> <file or folder>';
            print(options, { knowledge }, knowledge.length > 0 ? table(knowledge.map(row)) : none);
          } else {
            const { knowledge } = await callOwnerApi<{
              knowledge: Omit<Base, 'documents'> & { documents: Document[] };
            }>('GET', at(base));
            const rows = knowledge.documents.map(({ name, bytes, url }) => [
              printable(name),
              `${bytes} bytes`,
              url ?? '',
            ]);
            print(options, knowledge, rows.length > 0 ? table(rows) : 'it is empty');
          }
        }),
    )
    .addCommand(
      command('share', 'Lets peers be answered from it, from the next question on')
        .argument('<base>')
        .option('--off', 'takes that back')
        .action(async (base: string, options: JsonOption & { off?: boolean }) => {
          const body = { shared_with_peers: options.off !== true };
          const { knowledge } = await callOwnerApi<{ knowledge: Base }>('PATCH', at(base), body);
          print(options, knowledge, table([row(knowledge)]));
        }),
    )
    .addCommand(
      command('remove', 'Deletes a knowledge base, or one document of it')
        .argument('<base>')
        .argument('[document]')
        .action(async (base: string, document: string | undefined, options: JsonOption) => {
          await callOwnerApi('DELETE', document === undefined ? at(base) : documentAt(base, document));
          print(options, { removed: document ?? base }, `removed ${document ?? base}`);
        }),
    )
    .addCommand(
      command('search', 'What a model would find')
        .argument('<words>')
        .option('--peer', 'for somebody else: only what is shared')
        .action(async (words: string, options: JsonOption & { peer?: boolean }) => {
          const query = new URLSearchParams({ q: words, audience: options.peer ? 'peer' : 'owner' });
          const { found } = await callOwnerApi<{ found: Found[] }>('GET', `/knowledge/search?${query}`);
          const lines = found.flatMap(({ knowledge, document, place, text }) => [
            `${knowledge}: ${document}${place === '' ? '' : ` · ${place}`}`,
            `  ${text.replace(/\s+/g, ' ').slice(0, 160)}`,
          ]);
          print(options, { found }, lines.length > 0 ? lines.map(printable) : 'nothing');
        }),
    );
}

function addCommand(): Command {
  return command('add', 'Puts texts in: files, and the text files of folders. The base is made when it is not there')
    .argument('<base>')
    .argument('<path...>')
    .option('--share', 'and lets peers be answered from it')
    .option('--url <url>', 'where the document can be read: cited with it (for one file)')
    .action(async (base: string, paths: string[], options: JsonOption & { share?: boolean; url?: string }) => {
      const files = (await Promise.all(paths.map(textsAt))).flat();
      if (files.length === 0)
        throw new CliError('there is no text file', { next: `these are taken: ${[...textual].join(' ')}` });
      if (options.url !== undefined && files.length !== 1) throw usage('--url is for one file');
      await made(base);
      const documents: Document[] = [];
      for (const { name, path } of files) {
        const content = await readFile(path);
        if (content.length > mostBytes) throw new CliError(`${path} is larger than 1 MiB`, { next: 'cut it in parts' });
        const query = options.url === undefined ? '' : `?${new URLSearchParams({ url: options.url })}`;
        const put = await callOwnerApi<{ document: Document }>('PUT', documentAt(base, name) + query, content);
        documents.push(put.document);
        if (!options.json) console.log(`${printable(name)}: ${put.document.chunks} pieces`);
      }
      if (options.share) await callOwnerApi('PATCH', at(base), { shared_with_peers: true });
      const { knowledge } = await callOwnerApi<{ knowledge: Base }>('GET', at(base));
      const shared = knowledge.shared_with_peers
        ? 'shared with peers'
        : 'yours alone: gatehouse knowledge share lets peers be answered from it';
      print(
        options,
        { knowledge, added: documents },
        `${base} has ${documents.length} documents more or anew; ${shared}`,
      );
    });
}

async function made(base: string): Promise<void> {
  try {
    await callOwnerApi('POST', '/knowledge', { name: base });
  } catch (error) {
    if (!(error instanceof GatehouseError) || error.code !== 'conflict') throw error;
  }
}

/** Links are not followed, and what begins with a dot is left out. */
async function textsAt(path: string): Promise<Array<{ name: string; path: string }>> {
  const found = await lstat(path).catch(() => {
    throw new CliError(`${path} is not there`);
  });
  if (!found.isDirectory()) return [{ name: basename(path), path }];
  const files: Array<{ name: string; path: string }> = [];
  const visit = async (folder: string): Promise<void> => {
    const entries = (await readdir(folder, { withFileTypes: true })).sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const entry of entries.filter(({ name }) => !name.startsWith('.'))) {
      const here = join(folder, entry.name);
      if (entry.isDirectory()) await visit(here);
      if (!entry.isFile() || !textual.has(extname(entry.name).toLowerCase())) continue;
      files.push({ name: relative(path, here).split(sep).join('/'), path: here });
      if (files.length > mostFiles) throw new CliError(`${path} holds more than ${mostFiles} text files`);
    }
  };
  await visit(path);
  return files;
}

function at(base: string): string {
  return `/knowledge/${encodeURIComponent(base)}`;
}

function documentAt(base: string, name: string): string {
  return `${at(base)}/documents/${encodeURIComponent(name)}`;
}

function row({ name, shared_with_peers: shared, documents, bytes }: Base): string[] {
  return [printable(name), shared ? 'shared with peers' : 'yours alone', `${documents} documents`, `${bytes} bytes`];
}

/** `gatehouse memory …`: what your agents remember of their turns. */
export function memoryCommand(): Command {
  return new Command('memory')
    .description('What your agents with a model remember: shown to you alone, never to peers')
    .addCommand(
      command('list', 'The newest').action(async (options: JsonOption) => {
        const { memory } = await callOwnerApi<{ memory: Remembered[] }>('GET', '/memory');
        const rows = memory.map(({ id, text, origin, source, created_at: when }) => [
          id,
          when.slice(0, 10),
          printable(text),
          origin === 'owner' ? '' : `said by ${printable(source)}`,
        ]);
        print(options, { memory }, rows.length > 0 ? table(rows) : 'nothing yet');
      }),
    )
    .addCommand(
      command('forget', 'One of them, or with --all everything')
        .argument('[id]')
        .option('--all')
        .action(async (id: string | undefined, options: JsonOption & { all?: boolean }) => {
          if ((id === undefined) !== (options.all === true)) throw usage('name one, or say --all');
          const path = id === undefined ? '/memory' : `/memory/${encodeURIComponent(id)}`;
          const { forgotten } = await callOwnerApi<{ forgotten: number }>('DELETE', path);
          print(options, { forgotten }, `forgotten: ${forgotten}`);
        }),
    );
}

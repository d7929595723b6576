/** A piece of a document that a search finds. */
export interface Chunk {
  /** Where it stands, for citations: `p. 12`, `Installation › Wiring`, or ''. */
  place: string;
  text: string;
}

const wanted = 1_200;
const most = 1_800;
const longestPlace = 160;

/**
 * Cuts a text where its author did: at page breaks (form feeds, as pdftotext writes them), Markdown headings and empty lines. Pieces have about 1,200
 * characters, 1,800 at most, and keep the page or the headings that they stand under.
 */
export function chunksOf(text: string): Chunk[] {
  const pages = text.replace(/\r\n?/g, '\n').split('\f');
  return pages.flatMap((page, i) => {
    const headings: string[] = [];
    const chunks: Chunk[] = [];
    let open = '';
    // A heading alone tells nothing: it stays with what stands beneath it.
    let isHeading = false;
    const close = (): void => {
      if (open.trim() !== '')
        chunks.push({ place: placeOf(pages.length > 1 ? i + 1 : null, headings), text: open.trim() });
      open = '';
    };
    for (const paragraph of page.split(/\n(?:[ \t]*\n)+/)) {
      const [, marks, title] = /^\s*(#{1,6})\s+([^\n]{1,200})/.exec(paragraph) ?? [];
      if (marks !== undefined) {
        if (!isHeading) close();
        headings.length = Math.min(headings.length, marks.length - 1);
        headings[marks.length - 1] = title!.replace(/\s*#+\s*$/, '').trim();
      }
      for (const part of cut(paragraph)) {
        if (open !== '' && open.length + part.length > wanted) close();
        open += (open === '' ? '' : '\n\n') + part;
        isHeading = marks !== undefined && (isHeading || open === part) && part.trim().split('\n').length === 1;
      }
    }
    close();
    return chunks;
  });
}

function placeOf(page: number | null, headings: readonly (string | undefined)[]): string {
  const path = headings.filter((title) => title !== undefined && title !== '').join(' › ');
  return [page === null ? '' : `p. ${page}`, path]
    .filter((part) => part !== '')
    .join(', ')
    .slice(0, longestPlace);
}

/** At a blank where there is one. */
function cut(paragraph: string): string[] {
  const parts: string[] = [];
  let rest = paragraph;
  while (rest.length > most) {
    const blank = rest.slice(0, most).search(/\s\S*$/);
    const at = blank > wanted / 2 ? blank : wholeCharacters(rest, most);
    parts.push(rest.slice(0, at));
    rest = rest.slice(at).trimStart();
  }
  return [...parts, rest];
}

function wholeCharacters(text: string, at: number): number {
  return /[\ud800-\udbff]/.test(text[at - 1]!) ? at - 1 : at;
}

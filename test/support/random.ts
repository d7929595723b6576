/** Pseudo-random numbers that a seed repeats (mulberry32), for tests whose failures must be repeatable. */
export function seeded(seed: number): { below(n: number): number } {
  let state = seed >>> 0;
  const random = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return { below: (n) => Math.floor(random() * n) };
}

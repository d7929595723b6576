import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { HttpResponse, Route } from '../lib/http.ts';
import type { Refusal } from '../lib/refusal.ts';

/** What the gateway counts of itself, for Prometheus. Labels come from our own tables, so their number is bounded. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #messages = new Counter({
    name: 'gatehouse_messages_total',
    help: 'Messages accepted.',
    labelNames: ['wire', 'kind'],
    registers: [this.#registry],
  });
  readonly #refusals = new Counter({
    name: 'gatehouse_refusals_total',
    help: 'Requests that a gate refused.',
    labelNames: ['gate', 'code'],
    registers: [this.#registry],
  });

  readonly #turns = new Counter({
    name: 'gatehouse_model_turns_total',
    help: 'Requests that a model answered, or why it did not.',
    labelNames: ['outcome'],
    registers: [this.#registry],
  });
  readonly #tokens = new Counter({
    name: 'gatehouse_model_tokens_total',
    help: 'Tokens that models spent.',
    registers: [this.#registry],
  });

  constructor(read: { heldPolls: () => number; outboxInFlight: () => number }) {
    collectDefaultMetrics({ register: this.#registry });
    const gauge = (name: string, help: string, value: () => number): void => {
      new Gauge({
        name,
        help,
        registers: [this.#registry],
        collect() {
          this.set(value());
        },
      });
    };
    gauge('gatehouse_held_polls', 'Long polls that wait for a message.', read.heldPolls);
    gauge('gatehouse_outbox_in_flight', 'Outgoing items under way.', read.outboxInFlight);
  }

  accepted(wire: string, kind: string): void {
    this.#messages.inc({ wire, kind });
  }

  refused(refusal: Refusal): void {
    this.#refusals.inc({ gate: refusal.gate ?? 'core', code: refusal.code });
  }

  /** `answered`, or the code of the failure. */
  turn(outcome: string): void {
    this.#turns.inc({ outcome });
  }

  spent(tokens: number): void {
    this.#tokens.inc(tokens);
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }

  get contentType(): string {
    return this.#registry.contentType;
  }
}

export interface HealthDeps {
  metrics: Metrics;
  /** Whether the database answers and has this program's schema. */
  ready(): Promise<boolean>;
}

/** Design §7: `/healthz` (alive), `/readyz` (may be sent requests), `/metrics`. */
export function healthRoutes({ metrics, ready }: HealthDeps): Route[] {
  return [
    {
      method: 'GET',
      path: '/healthz',
      about: 'Alive',
      hot: true,
      handler: async () => status(200, 'ok'),
    },
    {
      method: 'GET',
      path: '/readyz',
      about: 'The database answers and has the schema of this program',
      handler: async () =>
        (await ready().catch(() => false)) ? status(200, 'ready') : status(503, 'the database does not answer'),
    },
    {
      method: 'GET',
      path: '/metrics',
      about: 'Counters and gauges, in the text form of Prometheus',
      handler: async () => ({
        status: 200,
        headers: { 'content-type': metrics.contentType },
        body: await metrics.text(),
      }),
    },
  ];
}

function status(code: number, words: string): HttpResponse {
  return { status: code, headers: { 'content-type': 'application/json' }, body: JSON.stringify({ status: words }) };
}

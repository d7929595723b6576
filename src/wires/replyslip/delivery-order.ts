import { z } from 'zod';
import type { DeliveryOrder } from '../../directory/delivery.ts';

const auth = z.discriminatedUnion('type', [
  z.object({ type: z.literal('none') }),
  z.object({ type: z.literal('bearer'), token: z.string() }),
  z.object({ type: z.literal('headers'), headers: z.record(z.string(), z.string()) }),
  z.object({ type: z.literal('hmac'), secret: z.string() }),
]);

export const webhook = z.object({ url: z.string().max(10_000), auth: auth.default({ type: 'none' }) });

/** What `PUT /api/v1/agents/{id}/delivery` says. `herdr` is the form of before there were drivers. */
export const deliveryOrder: z.ZodType<DeliveryOrder> = z
  .discriminatedUnion('mode', [
    z.object({ mode: z.literal('none') }),
    z.object({ mode: z.literal('local'), driver: z.string(), target: z.string() }),
    z.object({ mode: z.literal('herdr'), pane: z.string() }),
    z.object({ mode: z.literal('webhook'), webhook }),
  ])
  .transform(
    (order): DeliveryOrder => (order.mode === 'herdr' ? { mode: 'local', driver: 'herdr', target: order.pane } : order),
  );

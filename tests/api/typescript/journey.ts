// What an integrator writes against the generated types; it is compiled, with `tsc --strict`.

import type { components, paths } from "./openapi";

type Schemas = components["schemas"];
type Request<P extends keyof paths> = paths[P] extends {
  post: { requestBody: { content: { "application/json": infer B } } };
}
  ? B
  : never;

// Only what is required has to be given.
export const smallest: Request<"/v1/predictions"> = { document: { text: "Fever and cough." } };
export const vectors: Request<"/v1/predictions"> = { document: { features: { age: 71 } } };
export const batch: Request<"/v1/predictions/batch"> = { documents: [{ id: "note-17", text: "Cough." }] };
export const report: Schemas["OutcomeRequest"] = { labels: ["J18.9"], source: "billing" };
export const answer: Schemas["CompletionRequest"] = { labels: [] };
export const key: Schemas["KeyRequest"] = { name: "billing", role: "client" };
export const file: Schemas["ExportJobRequest"] = { what: "predictions" };
export const hook: Schemas["WebhookRequest"] = { url: "https://billing.example/hooks" };

// @ts-expect-error -- a document is needed
export const nothing: Request<"/v1/predictions"> = {};
// @ts-expect-error -- this is no member of a document
export const misspelt: Request<"/v1/predictions"> = { document: { txet: "Cough." } };

// A newcomer has labels alone: they are proposed and accepted, and what waits has no candidates.
export const label: Schemas["LabelProposal"] = { label: "wheat" };
export const accepted: Schemas["LabelChangeRequest"] = { state: "accepted" };

export function suggested(task: Schemas["ReviewTask"]): string[] | null {
  return task.candidates?.[0]?.labels ?? null;
}

// An answer has all its members; without a model there is no label set and no confidence.
export function threshold(prediction: Schemas["Prediction"]): number {
  if (prediction.confidence === null) return prediction.reason === "no_model" ? 0 : -1;
  return prediction.confidence - (prediction.threshold ?? 1);
}

// A message says by its type what its data is.
type Message = Schemas["MessagePage"]["items"][number];

export function told(message: Message): string {
  switch (message.type) {
    case "prediction.auto_sent":
      return `${message.id}: ${message.data.labels.join()} at ${message.data.confidence.toFixed(2)}`;
    case "review.completed":
      return `${message.data.annotation_id} ${message.data.agreed ? "agreed" : "corrected"}`;
    case "document.corrected":
      return `${message.data.previous_labels.join()} was wrong, said ${message.data.source}`;
    case "policy.tripped":
      return `stopped by ${message.data.cause}`;
    case "webhook.test":
      return `tried ${message.data.webhook_id}`;
  }
}

// One handler takes what webhooks receive, what the outbox lists and what a delivery shows.
export function seen(delivery: Schemas["DeliveryWithLog"], listed: Message): string {
  return [delivery.payload, listed].map(received).join();
}

function received(message: Schemas["DeliveryWithLog"]["payload"]): string {
  if (message.type === "policy.tripped") return message.data.trip_id;
  return message.type === "webhook.test" ? message.data.webhook_id : message.data.prediction_id;
}

export function explained(problem: Schemas["Problem"]): string {
  return `${problem.title} (${problem.request_id})`;
}

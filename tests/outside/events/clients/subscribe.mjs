// Follows the event log with an unmodified client library and prints each event as a line of JSON, until standard input
// ends: node subscribe.mjs ws|sse GRAPHQL_URL AFTER_SEQUENCE, the token in MERCATO_TOKEN.
import { createClient as createSseClient } from 'graphql-sse';
import { createClient as createWebSocketClient } from 'graphql-ws';
import WebSocket from 'ws';

const [, , transport, url, after] = process.argv;
const Authorization = `Bearer ${process.env.MERCATO_TOKEN}`;
const client =
  transport === 'ws'
    ? createWebSocketClient({
        url: url.replace(/^http/, 'ws'),
        webSocketImpl: WebSocket,
        connectionParams: { Authorization },
        retryAttempts: 0,
      })
    : createSseClient({ url, headers: { Authorization }, retryAttempts: 0 });

const query = `subscription Follow($after: Sequence) {
  events(afterSequence: $after) { sequence type payload }
}`;
const events = client.iterate({ query, variables: { after: Number(after) } });

let over = false;
process.stdin.resume().on('end', () => {
  over = true;
  events.return();
});

try {
  for await (const result of events) {
    if (result.errors) throw new Error(JSON.stringify(result.errors));
    process.stdout.write(`${JSON.stringify(result.data.events)}\n`);
  }
  if (!over) throw new Error('the service completed the subscription by itself');
} catch (error) {
  const close = error?.code ? `closed with ${error.code} ${error.reason}` : (error?.stack ?? JSON.stringify(error));
  console.error(`${transport}: ${close}`);
  process.exitCode = 1;
}
await client.dispose();
// Standard input may still be open.
process.stdin.destroy();

// Runs graphql-http's server audits against a served /graphql: MERCATO_TOKEN=... node audit.mjs --url URL
import { parseArgs } from 'node:util';
import { auditServer } from 'graphql-http';

const EXPECTED = 61;

const { url } = parseArgs({ options: { url: { type: 'string' } } }).values;
const token = process.env.MERCATO_TOKEN;
if (!url || !token) {
  console.error('usage: MERCATO_TOKEN=... node audit.mjs --url http://HOST:PORT/graphql');
  process.exit(2);
}

const fetchFn = (input, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set('authorization', `Bearer ${token}`);
  return fetch(input, { ...init, headers, signal: AbortSignal.timeout(10_000) });
};

const results = await auditServer({ url, fetchFn });
const count = { ok: 0, notice: 0, warn: 0, error: 0 };
for (const result of results) {
  count[result.status] += 1;
  if (result.status !== 'ok') {
    const status = result.response?.status ?? 'no answer';
    console.log(`${result.status} ${result.id} ${result.name}: ${result.reason} (status ${status})`);
  }
}
const { ok, notice, warn, error } = count;
console.log(`${results.length} audits: ${ok} ok, ${notice} notice, ${warn} warn, ${error} error`);
process.exitCode = results.length === EXPECTED && warn === 0 && error === 0 ? 0 : 1;

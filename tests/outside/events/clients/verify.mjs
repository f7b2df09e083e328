// Verifies deliveries with npm's standardwebhooks. Standard input: a JSON list of {headers, body, secret, format}; `format`
// is "raw" for a secret that is no whsec_. Standard output: a JSON list, for each null or why it does not verify.
import { Webhook } from 'standardwebhooks';

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const verdicts = JSON.parse(Buffer.concat(chunks)).map(({ headers, body, secret, format }) => {
  try {
    new Webhook(secret, format ? { format } : undefined).verify(body, headers);
    return null;
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
});
process.stdout.write(JSON.stringify(verdicts));

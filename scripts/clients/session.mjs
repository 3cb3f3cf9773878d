// The story, told with a TypeScript client: the words are the modules that have its Client and its
// StreamableHTTPClientTransport.
import { tell } from "./story.mjs";

const modules = await Promise.all(process.argv.slice(2).map((name) => import(name)));
const { Client, StreamableHTTPClientTransport } = Object.assign({}, ...modules);

await tell(async (token) => {
  const client = new Client({ name: "interop", version: "1" });
  const headers = { Authorization: `Bearer ${token}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(process.env.URL), { requestInit: { headers } }));
  return client;
});

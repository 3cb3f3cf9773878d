// The story, told with the newest TypeScript client.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

import { tell } from "./story.mjs";

await tell(async (token) => {
  const client = new Client({ name: "interop", version: "1" });
  const headers = { Authorization: `Bearer ${token}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(process.env.URL), { requestInit: { headers } }));
  return client;
});

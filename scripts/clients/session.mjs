// The story, told with the TypeScript SDK that most clients still use.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

import { tell } from "./story.mjs";

await tell(async (token) => {
  const client = new Client({ name: "interop", version: "1" });
  const headers = { Authorization: `Bearer ${token}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(process.env.URL), { requestInit: { headers } }));
  return client;
});

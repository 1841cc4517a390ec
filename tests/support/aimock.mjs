// aimock on a free port of loopback: prints its address. Each line of its standard input is a list of
// fixtures, taken as they are (its own door refuses arguments that are no JSON). It ends with its input.
import { createInterface } from "node:readline";

const { LLMock } = await import(process.argv[2]);
const server = new LLMock({ port: 0, host: "127.0.0.1", logLevel: "silent" });
await server.start();
console.log(server.url);
for await (const line of createInterface({ input: process.stdin })) {
  server.addFixtures(JSON.parse(line));
  console.log("added");
}
process.exit(0);

// SmolLM2-135M behind chat completions on a free port of loopback: prints its address.
// Arguments: the module node-llama-cpp, the weights. It ends with its standard input.
//
// So small a model does not choose well: what it may say is a grammar. It calls tools that were not
// called yet, those first that the question names, and directive_return last; the arguments are its own.
import { createServer } from "node:http";

const [, , module, weights] = process.argv;
const { getLlama, LlamaCompletion } = await import(module);
const llama = await getLlama({ gpu: false, build: "never", logLevel: "error", maxThreads: 1 });
const model = await llama.loadModel({ modelPath: weights });
const context = await model.createContext({ contextSize: 2048, threads: 1 });
const completion = new LlamaCompletion({ contextSequence: context.getSequence() });
const RETURN = "directive_return";

const text = (one) => one.content ?? JSON.stringify(one.tool_calls.map(({ function: f }) => f));
const turn = (one) => `<|im_start|>${one.role}\n${text(one)}<|im_end|>\n`;

function candidates({ messages, tools }) {
  const called = new Set(
    messages.flatMap((one) => one.tool_calls ?? []).map((one) => one.function.name),
  );
  const question = messages.filter((one) => one.role === "user").map(text).join("\n");
  const open = tools.map((one) => one.function).filter(({ name }) => !called.has(name));
  const named = open.filter(({ name }) => name !== RETURN && question.includes(name));
  const last = open.filter(({ name }) => name === RETURN);
  return [named, last, open].find((some) => some.length > 0);
}

async function said(prompt, schema) {
  const grammar = await llama.createGrammarForJsonSchema(schema);
  const tokens = model.tokenize(prompt, true);
  const answer = await completion.generateCompletion(tokens, { grammar, maxTokens: 100 });
  return { answer, sent: tokens.length, answered: model.tokenize(answer).length };
}

async function chosen(prompt, open) {
  if (open.length === 1) return open[0];
  const { answer } = await said(prompt, { enum: open.map(({ name }) => name) });
  return open.find(({ name }) => name === JSON.parse(answer));
}

async function answer(body) {
  const prompt = `${body.messages.map(turn).join("")}<|im_start|>assistant\n`;
  const tool = await chosen(prompt, candidates(body));
  const { answer, sent, answered } = await said(`${prompt}${tool.name} `, tool.parameters);
  const call = { index: 0, id: `call_${body.messages.length}`, type: "function" };
  const delta = { tool_calls: [{ ...call, function: { name: tool.name, arguments: answer } }] };
  return [
    { id: "c", model: body.model, choices: [{ index: 0, delta }] },
    { id: "c", choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] },
    { id: "c", choices: [], usage: { prompt_tokens: sent, completion_tokens: answered } },
  ];
}

const server = createServer(async (request, reply) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const chunks = await answer(JSON.parse(Buffer.concat(parts)));
  reply.writeHead(200, { "content-type": "text/event-stream" });
  for (const one of [...chunks.map((chunk) => JSON.stringify(chunk)), "[DONE]"])
    reply.write(`data: ${one}\n\n`);
  reply.end();
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
process.stdin.on("end", () => process.exit(0)).resume();

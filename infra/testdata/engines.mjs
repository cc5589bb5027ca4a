// Runs state machines in aws-local-stepfunctions: the first argument names the folder of node_modules, stdin has a list of
// {definition, input, answers}, stdout gets one of {output} or {error}. answers are by state and payload: a list, of which
// each call takes the next; the last one stays.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

Promise.withResolvers ??= function () { // Node 20 has none
  let resolve, reject;
  const promise = new Promise((a, b) => { resolve = a; reject = b; });
  return { promise, resolve, reject };
};
const { StateMachine } = createRequire(process.argv[2] + "/")("aws-local-stepfunctions");

const sorted = (v) =>
  Array.isArray(v) ? v.map(sorted)
  : v && typeof v === "object" ? Object.fromEntries(Object.keys(v).sort().map((k) => [k, sorted(v[k])]))
  : v;

async function run({ definition, input, answers }) {
  const taskResourceLocalHandlers = {}, retryIntervalOverrides = {};
  const visit = (states) => {
    for (const [name, state] of Object.entries(states)) {
      if (state.Type === "Task") {
        retryIntervalOverrides[name] = 0;
        taskResourceLocalHandlers[name] = (parameters) => {
          const key = `${name} ${JSON.stringify(sorted(parameters.Payload))}`;
          const list = answers[key];
          if (!list) throw new Error(`no answer for ${key}`);
          const answer = list.length > 1 ? list.shift() : list[0];
          if (answer.error) throw Object.assign(new Error(answer.cause), { name: answer.error });
          return { Payload: answer.payload };
        };
      }
      for (const inner of [state.ItemProcessor, ...(state.Branches ?? [])]) if (inner) visit(inner.States);
    }
  };
  visit(definition.States);
  try {
    const machine = new StateMachine(definition, { validationOptions: { checkArn: false } });
    return { output: await machine.run(input, { overrides: { taskResourceLocalHandlers, retryIntervalOverrides } }).result };
  } catch (e) {
    return { error: (e.cause ?? e).name, message: String(e) }; // an ExecutionError has what failed as its cause
  }
}

const out = [];
for (const c of JSON.parse(readFileSync(0, "utf8"))) out.push(await run(c));
process.stdout.write(JSON.stringify(out), () => process.exit(0));

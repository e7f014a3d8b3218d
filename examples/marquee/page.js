// The page of the demo. It sends what the buttons say, and shows what came back and how long it took.

const HOME = `query Home {
  top { title year stars director { name } }
  me { watched { title } }
}`;
const TOP = "{ top { title year stars director { name } } }";
const RATE = "mutation Rate($film: ID!, $stars: Int!) { rate(film: $film, stars: $stars) { id title } }";
const NAMES = { guest: "a guest", alice: "Alice", bob: "Bob" };

const at = (id) => document.getElementById(id);

/** Creates an element. Text is always set as text, so nothing in an answer can become markup. */
function element(name, attributes = {}, ...children) {
  const created = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) created.setAttribute(attribute, value);
  created.append(...children);
  return created;
}

/** Asks the demo's server to do something. */
async function act(path, body = {}) {
  const headers = { "content-type": "application/json" };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  const reply = await response.json();
  const [error] = reply.body?.errors ?? [];
  if (reply.error !== undefined || error !== undefined) throw new Error(reply.error ?? error.message);
  return reply;
}

/** Sends a query as a visitor, with a trace of what each field got from the cache. */
const ask = (user, more = {}) =>
  act("ask", { query: HOME, cached: true, ...(user === "guest" ? {} : { user }), ...more });

// What is shown

const milliseconds = (ms) => (ms < 9.95 ? `${ms.toFixed(1)} ms` : `${Math.round(ms).toLocaleString("en")} ms`);
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const sqlOf = ({ statements }) => (statements.length === 0 ? "no SQL" : plural(statements.length, "SQL statement"));

/** Two measurements side by side, and how the second compares with the first. */
function comparison(first, second) {
  const longest = Math.max(first.reply.tookMs, second.reply.tookMs);
  const factor = first.reply.tookMs / second.reply.tookMs;
  return element(
    "div",
    { class: "comparison" },
    measure(first, longest),
    measure({ ...second, isBetter: factor > 1 }, longest),
    element("p", { class: "note verdict" }, `${second.title}: ${factor.toFixed(factor < 10 ? 1 : 0)} times as fast.`),
  );
}

/** One measurement: its title, time, SQL statements and a note, with a bar relative to the longest time. */
function measure({ title, reply, note, isBetter = false }, longest) {
  const speed = isBetter ? "good" : reply.statements.length > 0 ? "bad" : "";
  const bar = element("div", { class: `bar ${speed}` });
  bar.style.width = `${Math.max(1, (100 * reply.tookMs) / longest)}%`;
  return element(
    "div",
    { class: "measure" },
    element("h3", {}, title),
    element("p", { class: `figure ${speed}` }, milliseconds(reply.tookMs)),
    bar,
    element("p", {}, element("b", {}, sqlOf(reply))),
    element("p", { class: "note" }, note),
  );
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** How many entries of a reply came from the cache. */
const hitsOf = ({ body }) => sum(Object.values(body.extensions.cached).map(({ hit = 0 }) => hit));

/** How many entries a reply needed, of all fields and loaders or of one. */
function entriesOf({ body: { extensions } }, coordinate) {
  const needed = coordinate === undefined ? Object.values(extensions.cached) : [extensions.cached[coordinate] ?? {}];
  return sum(needed.flatMap((one) => Object.values(one)));
}

/** Which of the entries are shared by all visitors, and which are of the visitor who asked. */
function owners(reply, user) {
  const all = entriesOf(reply);
  const own = entriesOf(reply, "Visitor.watched");
  if (user === "guest") return `${all} entries, all of them shared by all visitors.`;
  const films = " A list that is loaded also needs its films; a list from the cache contains them.";
  return `${all} entries: ${all - own} shared by all visitors, and ${own} of ${NAMES[user]} alone.${films}`;
}

/** What each field and loader got from the cache. */
function trace({ body }) {
  // Fields such as Query.top first, then loaders.
  const isLoader = ([coordinate]) => !coordinate.includes(".");
  const entries = Object.entries(body.extensions.cached).sort((one, other) => isLoader(one) - isLoader(other));
  const rows = entries.map(([coordinate, outcomes]) => {
    const pills = Object.entries(outcomes).map(([outcome, count]) =>
      element("span", { class: outcome === "hit" ? "pill good" : "pill bad" }, `${count} ${outcome}`),
    );
    return element("tr", {}, element("th", { scope: "row" }, coordinate), element("td", {}, ...spaced(pills)));
  });
  return table(["Field or loader", "Entries"], rows);
}

/** Puts a space between elements, for those who copy the text or have it read aloud. */
const spaced = (parts) => parts.flatMap((part) => [part, " "]);

function table(heads, rows) {
  const head = element("tr", {}, ...heads.map((text) => element("th", { scope: "col" }, text)));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}

function statements(reply) {
  if (reply.statements.length === 0) return element("p", { class: "note" }, "No SQL statement ran.");
  const items = reply.statements.map(({ sql, tookMs }) =>
    element("li", {}, element("code", {}, sql), ` (simulated, ${tookMs} ms)`),
  );
  const list = element("ol", { class: "statements" }, ...items);
  return element("details", {}, element("summary", {}, `Show ${sqlOf(reply)}`), list);
}

/** The answer as a visitor of the film site would see it. */
function films({ body: { data } }, user) {
  const items = data.top.map(({ title, year, director, stars }) =>
    element(
      "li",
      {},
      element("span", {}, title, " ", element("small", {}, `${year}, ${director.name}`)),
      element("span", { class: "stars" }, `★ ${stars.toFixed(2)}`),
    ),
  );
  const watched = data.me?.watched.map(({ title }) => title).join(", ");
  return element(
    "div",
    { class: "answer" },
    element("h3", {}, "Best rated"),
    element("ol", { class: "films" }, ...items),
    element(
      "p",
      {},
      watched === undefined ? "Guests have no list of their own." : `${NAMES[user]} has watched: ${watched}`,
    ),
  );
}

/** The fields of a schema that have @cached or @invalidates, within their types. */
function cachedFields(schema) {
  const types = [...schema.matchAll(/^type (\w+) \{\n(.*?)^\}/gms)].map(([, name, body]) => {
    const fields = body.match(/^ {2}\w.*\n(?: {4}.*\n)*/gm).filter((field) => /@(cached|invalidates)\b/.test(field));
    return fields.length === 0 ? "" : `type ${name} {\n${fields.join("")}}\n`;
  });
  return types.join("");
}

const sentence = (text) => element("p", { class: "summary" }, text);

// What the buttons do

let isBusy = false;
function setBusy(value) {
  isBusy = value;
  // Not `disabled`, which would take the focus away from the button that was pressed.
  for (const button of document.querySelectorAll("button")) button.setAttribute("aria-disabled", String(value));
}

/** Runs `work` when the button is clicked, one at a time, and shows the elements that it returns. */
function onClick(id, resultId, work) {
  at(id).addEventListener("click", async () => {
    if (isBusy) return;
    setBusy(true);
    const result = at(resultId);
    result.setAttribute("aria-busy", "true");
    try {
      result.replaceChildren(...(await work()));
      await showState();
    } catch (error) {
      result.replaceChildren(element("p", { class: "bad" }, String(error)));
    }
    result.removeAttribute("aria-busy");
    setBusy(false);
  });
}

for (const user of ["guest", "alice", "bob"])
  onClick(`ask-${user}`, "ask-result", async () => {
    const reply = await ask(user);
    const text = `Answered ${NAMES[user]} in ${milliseconds(reply.tookMs)} with ${sqlOf(reply)}.`;
    const seen = element(
      "div",
      { class: "answer" },
      element("h3", {}, "What each part got"),
      trace(reply),
      element("p", { class: "note" }, owners(reply, user)),
      statements(reply),
    );
    return [sentence(text), element("div", { class: "columns" }, films(reply, user), seen)];
  });

onClick("clear", "ask-result", async () => {
  await act("clear");
  return [sentence("The cache is empty: the next request loads everything.")];
});

/** Asks twice as a guest, and compares. */
async function coldAndWarm() {
  const cold = await ask("guest");
  const warm = await ask("guest");
  const note = `${hitsOf(warm)} entries from the cache, shared by all visitors`;
  return {
    cold,
    shown: comparison({ title: "Cold", reply: cold, note: "everything loaded" }, { title: "Warm", reply: warm, note }),
  };
}

onClick("cold", "cold-result", async () => {
  await act("clear");
  return [(await coldAndWarm()).shown];
});

/** Shows a miss and a hit before any button was pressed, unless another page has filled the cache. */
async function showFirst() {
  const { cold, shown } = await coldAndWarm();
  if (hitsOf(cold) > 0) return;
  at("cold-result").replaceChildren(
    sentence("When this page was opened, it asked twice: first a miss, then a hit."),
    shown,
  );
  await act("clear");
}

onClick("burst", "burst-result", async () => {
  await act("burst", { query: TOP }); // warms the processes up, so that neither burst waits for code to be compiled
  const without = await act("burst", { query: TOP, cached: "BYPASS" });
  await act("clear");
  const reply = await act("burst", { query: TOP });
  const [allSql, sql] = [without, reply].map(({ statements }) => sum(statements.map(({ tookMs }) => tookMs)));
  const why = `Without the cache, the statements wait for ${connections} connections: ${milliseconds(allSql / connections)}. With it, SQL takes at most ${milliseconds(sql)}; the rest is the work of the processor for HTTP and for executing 200 queries, which entries for fields do not save.`;
  return [
    comparison(
      { title: "Without the cache", reply: without, note: "until the last response" },
      { title: "With the cache", reply, note: "until the last response" },
    ),
    element("p", { class: "note" }, why),
  ];
});

onClick("two", "two-result", async () => {
  await act("clear");
  const first = await ask("guest", { process: 0 });
  const second = await ask("guest", { process: 1 });
  return [
    comparison(
      { title: "Process 1", reply: first, note: `process id ${first.pid}` },
      { title: "Process 2", reply: second, note: `process id ${second.pid}` },
    ),
  ];
});

onClick("whole", "whole-result", async () => {
  const fields = await act("median", { query: TOP, cached: true });
  const whole = await act("median", { query: TOP, cached: true, responses: true });
  return [
    comparison(
      { title: "Fields", reply: { ...fields, statements: [] }, note: `${hitsOf(fields)} entries read` },
      { title: "Whole response", reply: { ...whole, statements: [] }, note: "1 entry read" },
    ),
  ];
});

onClick("rate", "rate-result", async () => {
  const film = at("film").value;
  await ask("guest"); // so that the cache is warm, whatever was clicked before
  const { body } = await act("ask", {
    query: RATE,
    variables: { film, stars: Number(at("stars").value) },
    user: "alice",
  });
  const reply = await ask("guest");
  return [
    element(
      "p",
      { class: "summary" },
      `Rated ${body.data.rate.title}. Invalidated the tags `,
      element("code", {}, `Film:${film}`),
      " and ",
      element("code", {}, "Ratings"),
      ".",
    ),
    element("p", {}, `The next request took ${milliseconds(reply.tookMs)} and ran ${sqlOf(reply)}:`),
    trace(reply),
    statements(reply),
  ];
});

/** What requests got while the store was running or stopped, oldest first. */
const story = [];
async function tell(title, times) {
  for (let nth = 0; nth < times; nth++) {
    const reply = await ask("guest");
    story.push([title, milliseconds(reply.tookMs), `${hitsOf(reply) || "no"} entries`, sqlOf(reply)]);
  }
  const rows = story.slice(-8).map((cells) => element("tr", {}, ...cells.map((text) => element("td", {}, text))));
  return table(["Redis", "Time", "From the cache", "SQL"], rows);
}

/** Asks until everything comes from the cache: processes connect to Redis again within two seconds. */
async function warmUp() {
  let reply = await ask("guest");
  for (let nth = 0; nth < 30 && hitsOf(reply) < entriesOf(reply); nth++) {
    await pause(100);
    reply = await ask("guest");
  }
  if (hitsOf(reply) === entriesOf(reply)) return;
  const outcomes = new Set(Object.values(reply.body.extensions.cached).flatMap((one) => Object.keys(one)));
  throw new Error(`the values do not come from the cache, but are ${[...outcomes].join(", ")}`);
}

onClick("stop", "store-result", async () => {
  await act("start-store"); // in case another tab has stopped it
  await warmUp();
  await tell("running", 2);
  await act("stop-store");
  return [await tell("stopped", 2), sentence("Redis is stopped. Both requests were answered, from the database.")];
});

onClick("start", "store-result", async () => {
  await act("start-store");
  await warmUp();
  return [await tell("running again", 2), sentence("Redis is running, and the cache has filled again.")];
});

// What runs

async function showState() {
  const state = await act("state");
  const { store, version, isRunning, processes, started, connections, hasInspector } = state;
  const stores = {
    own: `Redis ${version}, started by this demo`,
    given: "Redis, from REDIS_URL",
    memory: "memory of the process",
  };
  const lines = [
    ["Store", isRunning ? stores[store] : "Redis is stopped"],
    ["Server processes", started < processes ? `${started}, another one is starting` : String(processes)],
    ["Database", `simulated, ${connections} connections`],
  ];
  at("setup").replaceChildren(...lines.map(([name, text]) => element("li", {}, `${name}: `, element("b", {}, text))));
  at("inspector").hidden = !hasInspector;
  const [shown, other] = isRunning ? [at("stop"), at("start")] : [at("start"), at("stop")];
  const hadFocus = document.activeElement === other;
  other.hidden = true;
  shown.hidden = store !== "own";
  if (hadFocus) shown.focus();
  return state;
}

setBusy(true); // until the first process has started
at("query").textContent = HOME;
at("schema").textContent = cachedFields(await (await fetch("schema.graphql")).text());
const { store, films: choices, connections } = await showState();
at("film").append(...choices.map(({ id, title }) => element("option", { value: id }, title)));
at("stars").append(...[10, 8, 6, 4, 2].map((stars) => element("option", { value: stars }, String(stars))));
if (store === "memory") {
  at("two").hidden = true;
  at("two-result").append(
    sentence(
      "There is one process: the demo has found no redis-server, and REDIS_URL is not set. To see two, install one (apt-get install redis-server, or brew install redis), or set REDIS_URL, and start the demo again.",
    ),
  );
  at("store-result").append(sentence("There is no store to stop: entries are in the memory of the process."));
}
if (store === "given") at("store-result").append(sentence("The demo stops only a Redis that it has started itself."));
await showFirst().catch((error) => at("cold-result").replaceChildren(element("p", { class: "bad" }, String(error))));
setBusy(false);

// Until all processes have started
for (let state = await showState(); state.started < state.processes; state = await showState()) await pause(500);

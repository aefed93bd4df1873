// Reads a Kanata file with Konata's own parser and prints what it found, as JSON.
// KONATA=CHECKOUT node --import tsx konata.mjs FILE
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const core = (name) => import(pathToFileURL(path.join(process.env.KONATA, "src/core", name)).href);
const { FileLineReader } = await core("file_line_reader.ts");
const { OnikiriParser } = await core("onikiri_parser.ts");
const { ArrayOpStore } = await core("op_store.ts");

const [file] = process.argv.slice(2);
const store = new ArrayOpStore();
let warnings = 0;
const trace = await new OnikiriParser(store).parse(
  new FileLineReader(new File([fs.readFileSync(file)], path.basename(file))),
  undefined,
  (t) => { warnings = t.warningCount; },
);
const ops = [];
for (let id = 0; store.getOp(id); ++id) {
  const op = store.getOp(id);
  ops.push({
    gid: op.gid,
    lanes: op.lanes.map((l) => (l ? l.stages.map((s) => [s.name, s.startCycle, s.endCycle]) : [])),
    producers: op.prods.map((p) => p.opID ?? p.id),
    arrowEnds: op.consCycle,
    retired: op.retiredCycle,
  });
}
console.log(JSON.stringify({ warnings, lastCycle: trace.lastCycle, ops }));

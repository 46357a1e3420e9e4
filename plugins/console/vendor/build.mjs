// Builds the console's libraries from npm packages of exact versions: npm ci --ignore-scripts && npm run build
import {createHash} from "node:crypto";
import {copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync} from "node:fs";
import {dirname, join} from "node:path";
import {fileURLToPath} from "node:url";
import {build} from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "../xwheel_console/static/vendor");
const sha256 = (file) => createHash("sha256").update(readFileSync(file)).digest("hex");
const packageOf = (path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1];

rmSync(out, {recursive: true, force: true});
mkdirSync(out, {recursive: true});
const used = new Map();
const outputs = {};
for (const entry of readdirSync(join(here, "entries")).sort()) {
  const file = join(out, entry);
  const {metafile} = await build({
    absWorkingDir: here, entryPoints: [`entries/${entry}`], outfile: file, bundle: true, format: "esm", minify: true,
    target: "es2020", legalComments: "none", metafile: true, charset: "ascii",
  });
  for (const path of Object.keys(metafile.inputs)) {
    const name = packageOf(path);
    if (name) used.set(name, [...(used.get(name) ?? []), entry]);
  }
  outputs[entry] = sha256(file);
}
copyFileSync(join(here, "node_modules/@picocss/pico/css/pico.min.css"), join(out, "pico.min.css"));
outputs["pico.min.css"] = sha256(join(out, "pico.min.css"));
used.set("@picocss/pico", ["pico.min.css"]);

const packages = [];
const licences = [];
for (const name of [...used.keys()].sort()) {
  const folder = join(here, "node_modules", name);
  const {version, license} = JSON.parse(readFileSync(join(folder, "package.json")));
  const texts = readdirSync(folder, {withFileTypes: true})
    .filter((item) => item.isFile() && /^(licen[cs]e|notice|copying)/i.test(item.name)).map((item) => item.name).sort();
  packages.push({name, version, licence: license, in: [...new Set(used.get(name))]});
  licences.push(`${name} ${version} (${license})\n${"=".repeat(72)}\n`
    + texts.map((file) => readFileSync(join(folder, file), "utf8").trim()).join("\n\n"));
}
const lock = join(here, "package-lock.json");
writeFileSync(join(out, "LICENSES.txt"), licences.join("\n\n\n").replaceAll("\r", "") + "\n");
outputs["LICENSES.txt"] = sha256(join(out, "LICENSES.txt"));
const inputs = Object.fromEntries(
  [["package-lock.json", lock], ...readdirSync(join(here, "entries")).sort().map((file) => [`entries/${file}`, join(here, "entries", file)])]
    .filter(([, file]) => existsSync(file)).map(([name, file]) => [name, sha256(file)]));
writeFileSync(join(out, "MANIFEST.json"), JSON.stringify({packages, inputs, outputs}, null, 1) + "\n");

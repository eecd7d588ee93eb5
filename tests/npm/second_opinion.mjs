// Shared by the scripts of this folder: each has a vendor's own client and cairn talk to one fake
// server, which is a program.
//
//   node s3.mjs FAKE_STORE CAIRN      # the programs
//
// Exits with 77 where the clients are not installed (tests/npm/install).
import {strict as assert} from 'node:assert';
import {execFile, spawn} from 'node:child_process';
import {randomBytes} from 'node:crypto';
import fs from 'node:fs';
import {createRequire} from 'node:module';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import {fileURLToPath} from 'node:url';
import {promisify} from 'node:util';

const [fakeStore, cairnTool] = process.argv.slice(2);
const here = path.dirname(fileURLToPath(import.meta.url));
const installed = path.resolve(process.env.CAIRN_NPM ?? path.join(here, '../../build/npm'));

export const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-npm-'));
process.on('exit', () => fs.rmSync(folder, {recursive: true, force: true}));

// A package of the vendor's; ends the script where it is not installed.
export function vendor(name) {
  try {
    return createRequire(path.join(installed, 'package.json'))(name);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    console.error(`skipped: ${name} is not installed (tests/npm/install)`);
    process.exit(77);
  }
}

// Starts the fake server. Returns its address and keys (see testing/fake_store.cpp), and
//   taken(): the requests since the last call of taken(), in the order of their arrival
//   stop()
export async function startFake(kind) {
  const log = path.join(folder, `${kind}.log`);
  const child = spawn(fakeStore, [kind, log], {stdio: ['pipe', 'pipe', 'inherit']});
  const lines = readline.createInterface({input: child.stdout});
  const said = JSON.parse((await lines[Symbol.asyncIterator]().next()).value);
  let seen = 0;
  const taken = () => {
    const all = fs.readFileSync(log, 'utf8').split('\n').filter(Boolean).map(JSON.parse);
    const since = all.slice(seen);
    seen = all.length;
    return since;
  };
  return {...said, taken, stop: () => child.stdin.end()};
}

// Runs cairn with these environment variables and no others; returns its output.
export async function cairn(variables, ...words) {
  const env = {PATH: process.env.PATH, HOME: folder, TMPDIR: folder, ...variables};
  try {
    return (await promisify(execFile)(cairnTool, words, {env})).stdout;
  } catch (error) {
    throw new Error(`cairn ${words.join(' ')}: ${error.code}\n${error.stdout}${error.stderr}`);
  }
}

// A checkpoint of about so many random bytes, at a new path.
let files = 0;
export function checkpoint(bytes) {
  const header = JSON.stringify({w: {dtype: 'U8', shape: [bytes], data_offsets: [0, bytes]}});
  const padded = Buffer.from(header.padEnd(Math.ceil(header.length / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  const name = path.join(folder, `checkpoint-${++files}.safetensors`);
  fs.writeFileSync(name, Buffer.concat([length, padded, randomBytes(bytes)]));
  return name;
}

export const kSmall = 1_000;
export const kLarge = 20_000_000;  // more than one part

export const newPath = () => path.join(folder, `new-${++files}.safetensors`);

export function assertSame(bytes, file, what) {
  assert.ok(Buffer.from(bytes).equals(fs.readFileSync(file)), `${what}: other bytes`);
}

// No request may have been refused, except with a status in `expected`.
export function assertAccepted(requests, expected = []) {
  for (const each of requests) {
    const line = `${each.method} ${each.target}: ${each.status} ${each.answer ?? ''}`;
    assert.ok(each.status < 400 || expected.includes(each.status), line);
  }
}

// The one request of the method whose target contains `text` (or matches it).
export function requestOf(requests, method, text) {
  const found = requests.filter(each =>
      each.method === method &&
      (text instanceof RegExp ? text.test(each.target) : each.target.includes(text)));
  assert.ok(found.length > 0, `no ${method} of ${text} in\n${
      requests.map(each => `${each.method} ${each.target}`).join('\n')}`);
  return found[0];
}

// These describe the connection and the program, not the request.
const kOfTransport = new Set(['host', 'connection', 'user-agent', 'accept', 'accept-encoding',
                              'accept-language', 'content-length', 'transfer-encoding', 'expect']);

// Compares two requests for the same thing: the names in their queries, and their headers.
//
//   documented: the headers that the service documents for the operation: 'same' if both values must
//               be equal, or a regular expression that both must match
//   explained:  why a header or a name in the query differs, or only one of the two has it. A row
//               that explains nothing is an error, too.
//   ofClient:   what the vendor's client adds for itself, which the service does not ask for
//
// Throws when cairn sends what is not documented, or the two differ without a reason.
export function compareRequests(operation, theirs, ours,
                                {documented, explained = {}, ofClient = []}) {
  const left = new Map(Object.entries(explained));
  const problems = [];
  let alike = 0;
  const explains = name => {
    if (left.delete(name)) console.log(`  ${operation}: ${name}: ${explained[name]}`);
    else if (!(name in explained)) return false;
    return true;
  };
  const names = new Set([...Object.keys(theirs.headers), ...Object.keys(ours.headers)]);
  for (const name of names) {
    if (kOfTransport.has(name) || ofClient.includes(name)) continue;
    const [their, our] = [theirs.headers[name], ours.headers[name]];
    const how = documented[name];
    const isAlike = how === 'same' ? their === our
                                   : how !== undefined && how.test(their) && how.test(our);
    if (how === undefined) problems.push(`${name} is not documented: theirs ${their}, ours ${our}`);
    else if (isAlike) ++alike;
    else if (!explains(name)) problems.push(`${name}: theirs ${their}, ours ${our}`);
  }
  const [their, our] = [theirs, ours].map(each => new Set(
      new URL(each.target, 'http://fake').searchParams.keys()));
  for (const name of new Set([...their, ...our])) {
    if (ofClient.includes(name) || (their.has(name) && our.has(name)) || explains(name)) continue;
    problems.push(`${name} is in the query of ${their.has(name) ? 'theirs' : 'ours'} alone`);
  }
  for (const name of left.keys()) problems.push(`${name} needs no explanation`);
  assert.deepEqual(problems, [], `the requests of ${operation} differ`);
  assert.ok(alike > 0, `${operation}: no header to compare`);
  console.log(`${operation}: ${alike} headers alike, ${Object.keys(explained).length} explained`);
}

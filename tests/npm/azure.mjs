// Microsoft's own client and cairn, with testing/fake_azure.h between them.
import {strict as assert} from 'node:assert';
import {createHash} from 'node:crypto';
import fs from 'node:fs';

import {assertAccepted, assertSame, cairn, checkpoint, compareRequests, kLarge, kSmall, newPath,
        requestOf, startFake, vendor} from './second_opinion.mjs';

const azure = vendor('@azure/storage-blob');

const fake = await startFake('azure');
const key = new azure.StorageSharedKeyCredential(fake.account, fake.key);
const environment = {
  AZURE_STORAGE_SERVICE_ENDPOINT: fake.endpoint,
  AZURE_ACCOUNT_NAME: fake.account,
  AZURE_ACCOUNT_ACCESS_KEY: fake.key,
};
const container = new azure.BlobServiceClient(fake.endpoint, key).getContainerClient('container');
const blob = name => container.getBlockBlobClient(name);
const byToken = new azure.BlobServiceClient(`${fake.endpoint}?${fake.sas}`)
    .getContainerClient('container');

// The code of an answer to HEAD is in a header alone.
const refusedWith = (status, code) => error =>
    error.statusCode === status && error.details.errorCode === code;

// --- There and back ------------------------------------------------------------------------------

for (const size of [kSmall, kLarge]) {
  const file = checkpoint(size);
  const ours = `run/a b+ü&${size}.safetensors`;
  await cairn(environment, 'copy', file, `azure://container/${ours}`);
  assertAccepted(fake.taken(), [404]);  // cairn looks first
  assertSame(await blob(ours).downloadToBuffer(), file, `theirs of ours, ${size} bytes`);
  assertSame(await byToken.getBlobClient(ours).downloadToBuffer(), file, 'by a token');

  const theirs = `theirs/a b+ü&${size}.safetensors`;
  await blob(theirs).uploadFile(file, {blockSize: 4 << 20, maxSingleShotSize: 4 << 20});
  await byToken.getBlockBlobClient('theirs/by-token.safetensors').uploadFile(file);
  const copied = await blob('theirs/copied.safetensors').beginCopyFromURL(blob(theirs).url);
  assert.equal((await copied.pollUntilDone()).copyStatus, 'success');
  for (const name of [theirs, 'theirs/by-token.safetensors', 'theirs/copied.safetensors']) {
    const back = newPath();
    await cairn(environment, 'copy', `azure://container/${name}`, back);
    assertSame(fs.readFileSync(back), file, `ours of theirs, ${size} bytes`);
  }
  assertAccepted(fake.taken(), [404]);
}

const listed = [];
for await (const page of container.listBlobsFlat({prefix: 'theirs/'}).byPage({maxPageSize: 2})) {
  listed.push(...page.segment.blobItems.map(each => each.name));
}
assert.deepEqual(listed, ['theirs/a b+ü&1000.safetensors', 'theirs/a b+ü&20000000.safetensors',
                          'theirs/by-token.safetensors', 'theirs/copied.safetensors']);
const folders = [];
for await (const each of container.listBlobsByHierarchy('/')) folders.push(each.name);
assert.deepEqual(folders, ['run/', 'theirs/']);
await blob('theirs/copied.safetensors').delete();
await assert.rejects(blob('theirs/copied.safetensors').getProperties(),
                     refusedWith(404, 'BlobNotFound'));
const wrong = new azure.BlobServiceClient(
    fake.endpoint, new azure.StorageSharedKeyCredential(fake.account, 'd3Jvbmc='));
await assert.rejects(wrong.getContainerClient('container').getBlobClient('a').getProperties(),
                     refusedWith(403, 'AuthenticationFailed'));

// A token that the vendor's library has made lets cairn in.
const made = azure.generateAccountSASQueryParameters({
  services: 'b', resourceTypes: 'co', permissions: azure.AccountSASPermissions.parse('rwdl'),
  expiresOn: new Date(Date.now() + 3_600_000), version: '2021-12-02',
}, key).toString();
const withToken = {...environment, AZURE_ACCOUNT_ACCESS_KEY: '', AZURE_STORAGE_SAS_TOKEN: made};
await cairn(withToken, 'copy', checkpoint(kSmall), 'azure://container/by-their-token.safetensors');
assert.ok(await blob('by-their-token.safetensors').exists());
fake.taken();

// --- The same requests ---------------------------------------------------------------------------

const kOfAll = {
  'authorization': new RegExp(`^SharedKey ${fake.account}:[A-Za-z0-9+/]{43}=$`),
  'x-ms-date': /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/,
  'x-ms-version': 'same',
};
const kVersion = {'x-ms-version': 'each names the version of the protocol that it speaks'};
const ofClient = ['x-ms-client-request-id'];
const md5 = bytes => createHash('md5').update(bytes).digest();
const kMd5 = 'cairn lets the server compare the bytes; Microsoft\'s client leaves that to TLS';
const metadata = {cairnwrite: '0123456789abcdef0123456789abcdef'};
const kWriteId = /^[0-9a-f]{32}$/;
const blobHTTPHeaders = {blobContentType: 'application/octet-stream'};
const conditions = {ifNoneMatch: '*'};

const small = checkpoint(kSmall);
await cairn(environment, 'copy', small, 'azure://container/same/ours.safetensors');
await cairn(environment, 'inspect', 'azure://container/same/ours.safetensors');  // asks for HEAD
let ours = fake.taken();
await blob('same/theirs').upload(fs.readFileSync(small), fs.statSync(small).size,
                                 {blobHTTPHeaders, conditions, metadata});
await blob('same/theirs').getProperties();
let theirs = fake.taken();
compareRequests('Put Blob', requestOf(theirs, 'PUT', 'same/'), requestOf(ours, 'PUT', 'same/'), {
  documented: {
    ...kOfAll, 'x-ms-blob-type': 'same', 'content-type': 'same', 'content-md5': 'same',
    'if-none-match': 'same', 'x-ms-meta-cairnwrite': kWriteId, 'x-ms-blob-content-type': 'same',
  },
  explained: {
    ...kVersion, 'content-md5': kMd5,
    'x-ms-blob-content-type': 'goes before Content-Type, which says the same',
  },
  ofClient,
});
compareRequests('Get Blob Properties', requestOf(theirs, 'HEAD', 'same/'),
                requestOf(ours, 'HEAD', 'same/'),
                {documented: kOfAll, explained: kVersion, ofClient});

const large = checkpoint(kLarge);
await cairn(environment, 'copy', large, 'azure://container/same/ours-large.safetensors');
ours = fake.taken();
const bytes = fs.readFileSync(large);
const ids = [];
for (let begin = 0; begin < bytes.length; begin += 8 << 20) {
  const block = bytes.subarray(begin, begin + (8 << 20));
  ids.push(Buffer.from(`theirs-${String(ids.length).padStart(17, '0')}`).toString('base64'));
  await blob('same/theirs-large').stageBlock(ids.at(-1), block, block.length,
                                             {transactionalContentMD5: md5(block)});
}
await blob('same/theirs-large').commitBlockList(ids, {blobHTTPHeaders, conditions, metadata});
theirs = fake.taken();
// Blocks go at once, in any order: the one with the same bytes.
const theirBlock = requestOf(theirs, 'PUT', 'comp=block&');
const same = ours.filter(each => each.target.includes('blockid=') &&
                                 each.headers['content-md5'] === theirBlock.headers['content-md5']);
compareRequests('Put Block', theirBlock, requestOf(same, 'PUT', 'blockid='), {
  documented: {...kOfAll, 'content-md5': 'same', 'content-type': 'same'},
  explained: {...kVersion, 'content-type': 'the blob has that of its list'},
  ofClient,
});
compareRequests('Put Block List', requestOf(theirs, 'PUT', 'comp=blocklist'),
                requestOf(ours, 'PUT', 'comp=blocklist'), {
  documented: {
    ...kOfAll, 'content-type': /^application\/xml/, 'content-md5': 'same', 'if-none-match': 'same',
    'x-ms-blob-content-type': 'same', 'x-ms-meta-cairnwrite': kWriteId,
  },
  explained: {...kVersion, 'content-md5': kMd5},
  ofClient,
});

await cairn(environment, 'copy', 'azure://container/same/ours-large.safetensors', newPath());
await cairn(environment, 'ls', 'azure://container/same');
ours = fake.taken();
const get = ours.find(each => each.method === 'GET' && each.headers['if-match']);
const [begin, end] = get.headers.range.match(/\d+/g).map(Number);
await blob('same/ours-large.safetensors').download(
    begin, end - begin + 1, {conditions: {ifMatch: get.headers['if-match']}});
for await (const each of container.listBlobsByHierarchy('/', {prefix: 'same/'})) assert.ok(each);
theirs = fake.taken();
assertAccepted(theirs);
compareRequests('Get Blob', requestOf(theirs, 'GET', 'same/'), get, {
  documented: {...kOfAll, 'range': 'same', 'x-ms-range': 'same', 'if-match': 'same'},
  explained: {
    ...kVersion,
    'range': 'what cairn calls it',
    'x-ms-range': 'what their client calls it: it goes before Range, and means the same',
  },
  ofClient,
});
assert.equal(requestOf(theirs, 'GET', 'same/').headers['x-ms-range'], get.headers.range);
compareRequests('List Blobs', requestOf(theirs, 'GET', 'comp=list'),
                requestOf(ours, 'GET', 'comp=list'),
                {documented: kOfAll, explained: kVersion, ofClient});
fake.stop();

// Oracle's own client and cairn, with testing/fake_oci.h between them.
import {strict as assert} from 'node:assert';
import {createHash} from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import {buffer} from 'node:stream/consumers';

import {assertAccepted, assertSame, cairn, checkpoint, compareRequests, folder, kLarge, kSmall,
        newPath, requestOf, startFake, vendor} from './second_opinion.mjs';

const common = vendor('oci-common');
const {ObjectStorageClient} = vendor('oci-objectstorage');

const fake = await startFake('oci');
const [tenancy, user, fingerprint] = fake.key_id.split('/');
const keyFile = path.join(folder, 'key.pem');
fs.writeFileSync(keyFile, fake.private_key, {mode: 0o600});
const configFile = path.join(folder, 'config');
fs.writeFileSync(configFile, `[DEFAULT]\ntenancy=${tenancy}\nuser=${user}\n` +
    `fingerprint=${fingerprint}\nkey_file=${keyFile}\nregion=eu-frankfurt-1\n`, {mode: 0o600});
const environment = {OCI_CONFIG_FILE: configFile, CAIRN_OCI_ENDPOINT: fake.url};
const clientOf = (privateKey, print = fingerprint) => {
  const client = new ObjectStorageClient({
    authenticationDetailsProvider: new common.SimpleAuthenticationDetailsProvider(
        tenancy, user, print, privateKey, null, common.Region.EU_FRANKFURT_1),
  }, {retryConfiguration: common.NoRetryConfigurationDetails});
  client.endpoint = fake.url;
  return client;
};
const client = clientOf(fake.private_key);
const namespaceName = (await client.getNamespace({})).value;
assert.equal(namespaceName, fake.namespace);
const bucket = {namespaceName, bucketName: 'bucket'};
const read = async objectName => buffer((await client.getObject({...bucket, objectName})).value);
const md5 = bytes => createHash('md5').update(bytes).digest('base64');

// As their client uploads what is large: in parts, with the MD5 of each.
async function uploadInParts(objectName, bytes, condition = {}) {
  const {multipartUpload: {uploadId}} = await client.createMultipartUpload({
    ...bucket, createMultipartUploadDetails: {
      object: objectName, contentType: 'application/octet-stream',
      metadata: {'opc-meta-cairn-write': '0123456789abcdef0123456789abcdef'},
    },
  });
  const partsToCommit = [];
  for (let number = 1, begin = 0; begin < bytes.length; ++number, begin += 8 << 20) {
    const part = bytes.subarray(begin, begin + (8 << 20));
    const {eTag} = await client.uploadPart({
      ...bucket, objectName, uploadId, uploadPartNum: number, uploadPartBody: part,
      contentLength: part.length, contentMD5: md5(part),
    });
    partsToCommit.push({partNum: number, etag: eTag});
  }
  await client.commitMultipartUpload({
    ...bucket, objectName, uploadId, commitMultipartUploadDetails: {partsToCommit}, ...condition,
  });
}

// --- There and back ------------------------------------------------------------------------------

for (const size of [kSmall, kLarge]) {
  const file = checkpoint(size);
  const bytes = fs.readFileSync(file);
  const ours = `run/a b+ü&${size}.safetensors`;
  await cairn(environment, 'copy', file, `oci://bucket/${ours}`);
  assertAccepted(fake.taken(), [404]);  // cairn looks first
  assertSame(await read(ours), file, `theirs of ours, ${size} bytes`);

  const theirs = `theirs/a b+ü&${size}.safetensors`;
  await client.putObject({...bucket, objectName: theirs, putObjectBody: bytes,
                          contentLength: bytes.length});
  await uploadInParts('theirs/in-parts.safetensors', bytes);
  for (const name of [theirs, 'theirs/in-parts.safetensors']) {
    const back = newPath();
    await cairn(environment, 'copy', `oci://bucket/${name}`, back);
    assertSame(fs.readFileSync(back), file, `ours of theirs, ${size} bytes`);
  }
  assertAccepted(fake.taken(), [404]);
}

const listed = [];
for (let start; ;) {
  const {listObjects} = await client.listObjects({...bucket, prefix: 'theirs/', limit: 2, start});
  listed.push(...listObjects.objects.map(each => each.name));
  start = listObjects.nextStartWith;
  if (!start) break;
}
assert.deepEqual(listed, ['theirs/a b+ü&1000.safetensors', 'theirs/a b+ü&20000000.safetensors',
                          'theirs/in-parts.safetensors']);
const {listObjects} = await client.listObjects({...bucket, delimiter: '/'});
assert.deepEqual(listObjects.prefixes, ['run/', 'theirs/']);
await client.deleteObject({...bucket, objectName: 'theirs/in-parts.safetensors'});
await assert.rejects(client.headObject({...bucket, objectName: 'theirs/in-parts.safetensors'}),
                     {statusCode: 404});
await assert.rejects(clientOf(fake.private_key, 'cc:dd').getNamespace({}),
                     {statusCode: 401, serviceCode: 'NotAuthenticated'});
fake.taken();

// --- The same requests ---------------------------------------------------------------------------

const kDate = /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/;
const kSigned = new RegExp(
    `^Signature version="1",keyId="${fake.key_id}",algorithm="rsa-sha256",` +
    'headers="(x-)?date \\(request-target\\) host[^"]*",signature="[A-Za-z0-9+/]+=*"$');
const kOfAll = {'authorization': kSigned, 'date': kDate, 'x-date': kDate};
const kDates = {
  'x-date': 'their client signs it, and cairn Date: the service takes either',
};
const kReading = {...kOfAll, 'content-type': 'same'};
const kReadingExplained = {...kDates, 'content-type': 'of a request without a body: means nothing'};
const ofClient = ['opc-request-id', 'sec-fetch-mode', 'pragma', 'cache-control'];
const kWriteId = /^[0-9a-f]{32}$/;
const kHashed = {
  'x-content-sha256': 'cairn signs the hash of the bytes, too; Oracle does not ask for it here',
};

const small = checkpoint(kSmall);
await cairn(environment, 'copy', small, 'oci://bucket/same/ours.safetensors');
let ours = fake.taken();
const body = fs.readFileSync(small);
await client.putObject({
  ...bucket, objectName: 'same/theirs', putObjectBody: body, contentLength: body.length,
  contentMD5: md5(body), contentType: 'application/octet-stream', ifNoneMatch: '*',
  opcMeta: {'cairn-write': '0123456789abcdef0123456789abcdef'},
});
await client.headObject({...bucket, objectName: 'same/theirs'});
let theirs = fake.taken();
compareRequests('PutObject', requestOf(theirs, 'PUT', 'theirs'), requestOf(ours, 'PUT', 'ours'), {
  documented: {
    ...kOfAll, 'content-md5': 'same', 'content-type': 'same', 'if-none-match': 'same',
    'opc-meta-cairn-write': kWriteId, 'x-content-sha256': 'same',
  },
  explained: {...kDates, ...kHashed},
  ofClient,
});
compareRequests('HeadObject', requestOf(theirs, 'HEAD', 'theirs'), requestOf(ours, 'HEAD', 'ours'),
                {documented: kReading, explained: kReadingExplained, ofClient});

const large = checkpoint(kLarge);
await cairn(environment, 'copy', large, 'oci://bucket/same/ours-large.safetensors');
ours = fake.taken();
await uploadInParts('same/theirs-large', fs.readFileSync(large), {ifNoneMatch: '*'});
theirs = fake.taken();
const kJson = {
  ...kOfAll, 'content-type': 'same', 'x-content-sha256': /^[A-Za-z0-9+/]{43}=$/,
  'if-none-match': 'same',
};
const begun = [theirs, ours].map(each => requestOf(each, 'POST', /\/u$/));
compareRequests('CreateMultipartUpload', ...begun,
                {documented: kJson, explained: kDates, ofClient});
const [their, our] = begun.map(each => JSON.parse(each.body));
assert.deepEqual(Object.keys(our).sort(), Object.keys(their).sort());
assert.deepEqual(Object.keys(our.metadata), Object.keys(their.metadata));
compareRequests('UploadPart', requestOf(theirs, 'PUT', 'uploadPartNum=1'),
                requestOf(ours, 'PUT', 'uploadPartNum=1'), {
  documented: {
    ...kOfAll, 'content-md5': 'same', 'content-type': 'same', 'x-content-sha256': 'same',
  },
  explained: {...kDates, ...kHashed, 'content-type': 'of what is signed with the hash'},
  ofClient,
});
compareRequests('CommitMultipartUpload', requestOf(theirs, 'POST', 'uploadId='),
                requestOf(ours, 'POST', 'uploadId='),
                {documented: kJson, explained: kDates, ofClient});

await cairn(environment, 'copy', 'oci://bucket/same/ours-large.safetensors', newPath());
await cairn(environment, 'ls', 'oci://bucket/same');
ours = fake.taken();
const get = ours.find(each => each.method === 'GET' && each.headers['if-match']);
const [begin, end] = get.headers.range.match(/\d+/g).map(Number);
await client.getObject({
  ...bucket, objectName: 'same/ours-large.safetensors', range: new common.Range(begin, end),
  ifMatch: get.headers['if-match'],
});
await client.listObjects({...bucket, prefix: 'same/', delimiter: '/',
                          fields: 'name,size,etag,timeModified'});
theirs = fake.taken();
assertAccepted(theirs);
compareRequests('GetObject', requestOf(theirs, 'GET', 'same'), get, {
  documented: {...kReading, 'range': 'same', 'if-match': 'same'},
  explained: kReadingExplained,
  ofClient,
});
compareRequests('ListObjects', requestOf(theirs, 'GET', 'prefix='),
                requestOf(ours, 'GET', 'prefix='),
                {documented: kReading, explained: kReadingExplained, ofClient});
fake.stop();

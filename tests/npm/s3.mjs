// Amazon's own client and cairn, with testing/fake_s3.h between them.
import {strict as assert} from 'node:assert';
import fs from 'node:fs';

import {assertAccepted, assertSame, cairn, checkpoint, compareRequests, kLarge, kSmall, newPath,
        requestOf, startFake, vendor} from './second_opinion.mjs';

const aws = vendor('@aws-sdk/client-s3');
const {Upload} = vendor('@aws-sdk/lib-storage');

const fake = await startFake('s3');
const environment = {
  S3_ENDPOINT_URL: fake.url,
  AWS_ACCESS_KEY_ID: fake.key,
  AWS_SECRET_ACCESS_KEY: fake.secret,
  AWS_EC2_METADATA_DISABLED: 'true',
};
const options = {
  endpoint: fake.url,
  region: fake.region,
  forcePathStyle: true,
  credentials: {accessKeyId: fake.key, secretAccessKey: fake.secret},
};
const client = new aws.S3Client(options);
const Bucket = 'bucket';
const read = async key =>
    (await client.send(new aws.GetObjectCommand({Bucket, Key: key}))).Body.transformToByteArray();

// --- There and back ------------------------------------------------------------------------------

for (const size of [kSmall, kLarge]) {
  const file = checkpoint(size);
  const key = `run/a b+ü&${size}.safetensors`;
  await cairn(environment, 'copy', file, `s3://bucket/${key}`);
  assertAccepted(fake.taken(), [404, 412]);  // cairn looks first, and probes conditions
  assertSame(await read(key), file, `theirs of ours, ${size} bytes`);

  const theirs = `theirs/a b+ü&${size}.safetensors`;
  const upload = new Upload({client, params: {Bucket, Key: theirs, Body: fs.readFileSync(file)}});
  await upload.done();
  const streamed = `theirs/streamed-${size}.safetensors`;
  await client.send(new aws.PutObjectCommand(
      {Bucket, Key: streamed, Body: fs.createReadStream(file),
       ContentLength: fs.statSync(file).size}));
  await client.send(new aws.CopyObjectCommand(
      {Bucket, Key: 'theirs/copied', CopySource: encodeURI(`${Bucket}/${streamed}`)}));
  for (const name of [theirs, streamed]) {
    const back = newPath();
    await cairn(environment, 'copy', `s3://bucket/${name}`, back);
    assertSame(fs.readFileSync(back), file, `ours of theirs, ${size} bytes`);
  }
  assertSame(await read('theirs/copied'), file, 'a copy within the server');
  assertAccepted(fake.taken(), [404]);
}

const pages = aws.paginateListObjectsV2({client, pageSize: 2}, {Bucket, Prefix: 'theirs/'});
const listed = [];
for await (const page of pages) listed.push(...page.Contents.map(each => each.Key));
assert.deepEqual(listed, ['theirs/a b+ü&1000.safetensors', 'theirs/a b+ü&20000000.safetensors',
                          'theirs/copied', 'theirs/streamed-1000.safetensors',
                          'theirs/streamed-20000000.safetensors']);
const folders = await client.send(new aws.ListObjectsV2Command({Bucket, Delimiter: '/'}));
assert.deepEqual(folders.CommonPrefixes.map(each => each.Prefix), ['run/', 'theirs/']);
await client.send(new aws.DeleteObjectCommand({Bucket, Key: 'theirs/copied'}));
await assert.rejects(read('theirs/copied'), aws.NoSuchKey);
const wrong = new aws.S3Client(
    {...options, credentials: {accessKeyId: fake.key, secretAccessKey: 'wrong'}});
await assert.rejects(wrong.send(new aws.ListObjectsV2Command({Bucket})),
                     {name: 'SignatureDoesNotMatch'});
fake.taken();

// --- The same requests ---------------------------------------------------------------------------

const kHash = /^[0-9a-f]{64}$/;
const kOfAll = {
  'authorization': new RegExp(
      `^AWS4-HMAC-SHA256 Credential=${fake.key}/\\d{8}/${fake.region}/s3/aws4_request, ` +
      'SignedHeaders=[a-z0-9;-]+, Signature=[0-9a-f]{64}$'),
  'x-amz-content-sha256': kHash,
  'x-amz-date': /^\d{8}T\d{6}Z$/,
};
const ofClient = ['amz-sdk-invocation-id', 'amz-sdk-request', 'x-amz-user-agent', 'x-id'];
const kWriteId = /^[0-9a-f]{32}$/;
const Metadata = {'cairn-write': '0123456789abcdef0123456789abcdef'};
const kAlgorithm = 'names the checksum that follows in another header: not needed beside it';

const small = checkpoint(kSmall);
await cairn(environment, 'copy', small, 's3://bucket/same/ours.safetensors');
await cairn(environment, 'inspect', 's3://bucket/same/ours.safetensors');  // asks for HEAD
let ours = fake.taken();
const body = fs.readFileSync(small);
await client.send(new aws.PutObjectCommand({
  Bucket, Key: 'same/theirs.safetensors', Body: body, ContentType: 'application/octet-stream',
  IfNoneMatch: '*', Metadata, ChecksumAlgorithm: 'CRC64NVME',
}));
await client.send(new aws.HeadObjectCommand(
    {Bucket, Key: 'same/theirs.safetensors', ChecksumMode: 'ENABLED'}));
let theirs = fake.taken();
compareRequests('PutObject', requestOf(theirs, 'PUT', '/same/'),
                requestOf(ours, 'PUT', '/same/ours'), {
  documented: {
    ...kOfAll, 'x-amz-content-sha256': 'same', 'content-type': 'same', 'if-none-match': 'same',
    'x-amz-meta-cairn-write': kWriteId, 'x-amz-checksum-crc64nvme': 'same',
    'x-amz-sdk-checksum-algorithm': 'same',
  },
  explained: {'x-amz-sdk-checksum-algorithm': kAlgorithm},
  ofClient,
});
compareRequests('HeadObject', requestOf(theirs, 'HEAD', '/same/'),
                requestOf(ours, 'HEAD', '/same/ours'), {
  documented: {...kOfAll, 'x-amz-content-sha256': 'same', 'x-amz-checksum-mode': 'same'},
  ofClient,
});

const large = checkpoint(kLarge);
await cairn(environment, 'copy', large, 's3://bucket/same/ours-large.safetensors');
ours = fake.taken();
const Key = 'same/theirs-large.safetensors';
const {UploadId} = await client.send(new aws.CreateMultipartUploadCommand({
  Bucket, Key, ContentType: 'application/octet-stream', Metadata, ChecksumAlgorithm: 'CRC64NVME',
  ChecksumType: 'FULL_OBJECT',
}));
const bytes = fs.readFileSync(large);
const Parts = [];
for (let number = 1, begin = 0; begin < bytes.length; ++number, begin += 8 << 20) {
  const part = await client.send(new aws.UploadPartCommand({
    Bucket, Key, UploadId, PartNumber: number, Body: bytes.subarray(begin, begin + (8 << 20)),
    ChecksumAlgorithm: 'CRC64NVME',
  }));
  Parts.push({PartNumber: number, ETag: part.ETag, ChecksumCRC64NVME: part.ChecksumCRC64NVME});
}
const complete = requestOf(ours, 'POST', /ours-large.*uploadId=/);
await client.send(new aws.CompleteMultipartUploadCommand({
  Bucket, Key, UploadId, MultipartUpload: {Parts}, IfNoneMatch: '*', ChecksumType: 'FULL_OBJECT',
  ChecksumCRC64NVME: complete.headers['x-amz-checksum-crc64nvme'],
}));
theirs = fake.taken();
compareRequests('CreateMultipartUpload', requestOf(theirs, 'POST', 'uploads'),
                requestOf(ours, 'POST', /ours-large.*uploads/), {
  documented: {
    ...kOfAll, 'x-amz-content-sha256': 'same', 'content-type': 'same',
    'x-amz-meta-cairn-write': kWriteId, 'x-amz-checksum-algorithm': 'same',
    'x-amz-checksum-type': 'same',
  },
  ofClient,
});
compareRequests('UploadPart', requestOf(theirs, 'PUT', 'partNumber=1'),
                requestOf(ours, 'PUT', /ours-large.*partNumber=1/), {
  documented: {
    ...kOfAll, 'x-amz-content-sha256': 'same', 'x-amz-checksum-crc64nvme': 'same',
    'x-amz-sdk-checksum-algorithm': 'same', 'content-type': 'same',
  },
  explained: {
    'x-amz-sdk-checksum-algorithm': kAlgorithm,
    'content-type': 'the object has that of its upload',
  },
  ofClient,
});
compareRequests('CompleteMultipartUpload', requestOf(theirs, 'POST', 'uploadId='), complete, {
  documented: {
    ...kOfAll, 'content-type': 'same', 'if-none-match': 'same', 'x-amz-checksum-crc64nvme': 'same',
    'x-amz-checksum-type': 'same',
  },
  ofClient,
});

await cairn(environment, 'copy', 's3://bucket/same/ours-large.safetensors', newPath());
await cairn(environment, 'ls', 's3://bucket/same');
ours = fake.taken();
const get = ours.find(each => each.method === 'GET' && each.headers['if-match']);
const withoutChecksums = new aws.S3Client({
  ...options, requestChecksumCalculation: 'WHEN_REQUIRED',
  responseChecksumValidation: 'WHEN_REQUIRED',
});
await withoutChecksums.send(new aws.GetObjectCommand({
  Bucket, Key: 'same/ours-large.safetensors', Range: get.headers.range,
  IfMatch: get.headers['if-match'],
}));
await client.send(new aws.ListObjectsV2Command(
    {Bucket, Prefix: 'same/', Delimiter: '/', EncodingType: 'url'}));
await client.send(new aws.DeleteObjectCommand({Bucket, Key: 'same/ours-large.safetensors'}));
theirs = fake.taken();
assertAccepted(theirs);
compareRequests('GetObject', requestOf(theirs, 'GET', '/same/'), get, {
  documented: {...kOfAll, 'x-amz-content-sha256': 'same', 'range': 'same', 'if-match': 'same'},
  ofClient,
});
compareRequests('ListObjectsV2', requestOf(theirs, 'GET', 'list-type'),
                requestOf(ours, 'GET', 'list-type'), {
  documented: {...kOfAll, 'x-amz-content-sha256': 'same'},
  ofClient,
});
fake.stop();

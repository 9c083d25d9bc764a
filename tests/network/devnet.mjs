// Boots the official did:plc directory (in memory) and one or more official PDSes, on loopback.
//
//   node devnet.mjs [--modules DIR] [--pds N] [--data DIR] [--set name=value ...] [--stdin]
//                   [--plc-port N] [--pds-port N] [--host ADDRESS]
//
// DIR/node_modules holds @atproto/pds and @did-plc/server (default: beside this file). When all of them
// answer, one JSON line goes to standard output: {"plc": url, "pds": [{"url", "adminPassword"}]}. The network
// lives until a SIGTERM or, with --stdin, until standard input closes (a line `restart` there stops and starts
// the PDSes and prints the JSON line again); its data is then deleted, unless --data
// named a place. Ports are free ones where none are given; --host is for containers, which have a loopback of
// their own.
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'

const { values: options } = parseArgs({
  options: {
    modules: { type: 'string', default: dirname(fileURLToPath(import.meta.url)) },
    pds: { type: 'string', default: '1' },
    data: { type: 'string' },
    set: { type: 'string', multiple: true, default: [] },
    stdin: { type: 'boolean', default: false },
    host: { type: 'string', default: '127.0.0.1' },
    'plc-port': { type: 'string' },
    'pds-port': { type: 'string' },
  },
})

keepToOneHost()

const require = createRequire(join(resolve(options.modules), 'package.json'))
const load = (name) => import(pathToFileURL(require.resolve(name)).href)
const plcModule = await load('@did-plc/server')
const { PDS, envToCfg, envToSecrets } = await load('@atproto/pds')
const { PlcServer, Database } = plcModule.PlcServer ? plcModule : plcModule.default

const plcPort = options['plc-port'] ? Number(options['plc-port']) : await freePort()
const plc = PlcServer.create({ db: Database.mock(), port: plcPort })
await plc.start()

const data = options.data ?? mkdtempSync(join(tmpdir(), 'engram-devnet-'))
if (options.data === undefined) process.on('exit', () => rmSync(data, { recursive: true, force: true }))
const servers = []
for (let index = 0; index < Number(options.pds); index++) servers.push(await startPds(index))

tell()

let stopping = false
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, stop)
if (options.stdin) {
  process.stdin.on('end', stop).on('error', stop)
  createInterface({ input: process.stdin }).on('line', (line) => line === 'restart' && restart())
}

function tell() {
  const pds = servers.map(({ url, adminPassword }) => ({ url, adminPassword }))
  process.stdout.write(JSON.stringify({ plc: `http://localhost:${plcPort}`, pds }) + '\n')
}

async function restart() {
  for (const [index, { pds, environment }] of servers.entries()) {
    await pds.destroy()
    servers[index] = await startPds(index, environment)
  }
  tell()
}

async function startPds(index, known) {
  const environment = known ?? (await newEnvironment(index))
  const pds = await PDS.create(envToCfg(environment), envToSecrets(environment))
  await pds.start()
  return { pds, url: `http://localhost:${environment.port}`, adminPassword: environment.adminPassword, environment }
}

async function newEnvironment(index) {
  const port = options['pds-port'] ? Number(options['pds-port']) + index : await freePort()
  const dataDirectory = join(data, `pds${index}`)
  mkdirSync(dataDirectory, { recursive: true })
  const adminPassword = randomBytes(12).toString('hex')
  return {
    devMode: true, // lets handles and service URLs be http on localhost
    hostname: 'localhost',
    port,
    dataDirectory,
    blobstoreDiskLocation: join(dataDirectory, 'blobs'),
    didPlcUrl: `http://localhost:${plcPort}`,
    serviceHandleDomains: ['.test'],
    inviteRequired: false,
    crawlers: [],
    trustedOAuthClients: [],
    rateLimitsEnabled: false,
    disableSsrfProtection: true,
    adminPassword,
    jwtSecret: randomBytes(16).toString('hex'),
    dpopSecret: randomBytes(32).toString('hex'),
    plcRotationKeyK256PrivateKeyHex: randomBytes(32).toString('hex'),
    ...Object.fromEntries(options.set.map(setting)),
  }
}

function setting(text) {
  const at = text.indexOf('=')
  const value = text.slice(at + 1)
  const typed = value === 'true' ? true : value === 'false' ? false : /^\d+$/.test(value) ? Number(value) : value
  return [text.slice(0, at), typed]
}

// Both servers listen on every interface and offer no option for it, so the host is added underneath them.
function keepToOneHost() {
  const listen = net.Server.prototype.listen
  net.Server.prototype.listen = function (where, ...rest) {
    const bare = (typeof where === 'number' || typeof where === 'string') && typeof rest[0] !== 'string'
    return bare ? listen.call(this, Number(where), options.host, ...rest) : listen.call(this, where, ...rest)
  }
}

function freePort() {
  return new Promise((found, failed) => {
    const probe = net.createServer().once('error', failed)
    probe.listen(0, options.host, () => {
      const { port } = probe.address()
      probe.close(() => found(port))
    })
  })
}

async function stop() {
  if (stopping) return
  stopping = true
  setTimeout(() => process.exit(0), 3000) // a subscriber that never closes must not keep us
  await Promise.allSettled(servers.map(({ pds }) => pds.destroy()))
  await plc.destroy().catch(() => undefined)
  process.exit(0)
}

// Speed of llama.cpp (npm node-llama-cpp, prebuilt for each CPU, installed in the directory FERRY_PEER) in llama-bench's terms.
// usage: FERRY_PEER=DIR node peer.mjs MODEL.gguf N_PROMPT N_GEN REPETITIONS THREADS      a JSON line per repetition
//        FERRY_PEER=DIR node peer.mjs --version
// As in llama-bench the last token of a prompt and each one that is decoded has its logits computed, and none is sampled:
// evaluateWithoutGeneratingNewTokens would leave the output matrix out, a fifth of the bytes of a model of 1B.
import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";

const peer = process.env.FERRY_PEER;
const packageOf = (name) => JSON.parse(readFileSync(`${peer}/node_modules/${name}`));
if (process.argv[2] === "--version") {
    const release = packageOf("node-llama-cpp/llama/binariesGithubRelease.json").release;
    console.log(`llama.cpp ${release} (node-llama-cpp ${packageOf("node-llama-cpp/package.json").version})`);
    process.exit(0);
}
const [file, nPrompt, nGen, repetitions, threads] = process.argv.slice(2).map((v, i) => (i === 0 ? v : Number(v)));
const entry = createRequire(`${peer}/package.json`).resolve("node-llama-cpp");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(entry));
const llama = await getLlama({gpu: false, build: "never", maxThreads: threads, logLevel: LlamaLogLevel.error});
const model = await llama.loadModel({modelPath: file});
const context = await model.createContext({contextSize: nPrompt + nGen + 32, batchSize: 512, threads});
const sequence = context.getSequence();
const token = (i) => 100 + (i * 7919) % Math.min(20000, model.fileInfo.metadata.tokenizer.ggml.tokens.length - 200);
const seconds = () => Number(process.hrtime.bigint()) / 1e9;
const evaluate = async (tokens) => {
    for await (const _ of sequence.evaluate(tokens, {_noSampling: true}))
        throw new Error("a token was sampled");
};

for (let r = -1; r < repetitions; r++) { // repetition -1 warms the caches
    await sequence.clearHistory();
    const warm = r < 0 ? Math.min(nGen, 2) : nGen;
    const begin = seconds();
    await evaluate(Array.from({length: nPrompt}, (_, i) => token(i)));
    const between = seconds();
    for (let i = 0; i < warm; i++)
        await evaluate([token(nPrompt + i)]);
    const end = seconds();
    if (r >= 0)
        console.log(JSON.stringify({pp_tok_s: nPrompt / (between - begin), tg_tok_s: nGen / (end - between)}));
}
process.exit(0);

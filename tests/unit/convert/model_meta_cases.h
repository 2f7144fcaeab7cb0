/* Made by model_meta_cases.py with gguf-py. */
#ifndef FY_TESTS_MODEL_META_CASES_H
#define FY_TESTS_MODEL_META_CASES_H

static const struct {
    const char *id;
    unsigned long long n_params;
    const char *name, *org, *basename, *finetune, *version, *size_label, *title;
} id_cases[] = {
    {"Mistral-7B-Instruct-v0.2", 7241732096ULL, "Mistral-7B-Instruct-v0.2", "", "Mistral", "Instruct", "v0.2", "7B", "Mistral 7B Instruct v0.2"},
    {"mistralai/Mixtral-8x7B-Instruct-v0.1", 0ULL, "Mixtral-8x7B-Instruct-v0.1", "mistralai", "Mixtral", "Instruct", "v0.1", "8x7B", "Mixtral 8x7B Instruct v0.1"},
    {"Meta-Llama-3-8B", 8030261248ULL, "Meta-Llama-3-8B", "", "Meta-Llama-3", "", "", "8B", "Meta Llama 3 8B"},
    {"meta-llama/Llama-3.2-1B-Instruct", 1235814400ULL, "Llama-3.2-1B-Instruct", "meta-llama", "Llama-3.2", "Instruct", "", "1B", "Llama 3.2 1B Instruct"},
    {"Qwen/Qwen2.5-0.5B-Instruct", 494032768ULL, "Qwen2.5-0.5B-Instruct", "Qwen", "Qwen2.5", "Instruct", "", "0.5B", "Qwen2.5 0.5B Instruct"},
    {"Qwen3-30B-A3B", 30532122624ULL, "Qwen3-30B-A3B", "", "Qwen3", "", "", "30B-A3B", "Qwen3 30B A3B"},
    {"bigscience/bloom-7b1-petals", 0ULL, "bloom-7b1-petals", "bigscience", "bloom", "petals", "", "7.1B", "Bloom 7b1 Petals"},
    {"NousResearch/Yarn-Llama-2-7b-128k", 6738415616ULL, "Yarn-Llama-2-7b-128k", "NousResearch", "Yarn-Llama-2", "128k", "", "7B", "Yarn Llama 2 7b 128k"},
    {"microsoft/Phi-3-mini-4k-instruct", 3821079552ULL, "Phi-3-mini-4k-instruct", "microsoft", "Phi-3", "4k-instruct", "", "mini", "Phi 3 Mini 4k Instruct"},
    {"tiiuae/falcon-40b-instruct", 0ULL, "falcon-40b-instruct", "tiiuae", "falcon", "instruct", "", "40B", "Falcon 40b Instruct"},
    {"stories260K-hf-f32", 260032ULL, "stories260K-hf-f32", "", "", "", "", "", "stories260K Hf F32"},
    {"SmolLM2-135M", 134515008ULL, "SmolLM2-135M", "", "SmolLM2", "", "", "135M", "SmolLM2 135M"},
    {"gpt2-xl", 0ULL, "gpt2-xl", "", "gpt2", "", "", "xl", "Gpt2 Xl"},
    {"tales", 2427136ULL, "tales", "", "", "", "", "", "Tales"},
    {"Not so standard name", 0ULL, "Not so standard name", "", "", "", "", "", "Not So Standard Name"},
    {"./models/foo", 0ULL, "models/foo", "", "", "", "", "", "Models/Foo"},
    {"org/", 0ULL, "", "org", "", "", "", "", ""},
    {"a--b---7B-", 0ULL, "a--b---7B-", "", "a-b", "", "", "7B", "A B 7B"},
    {"TinyLlama-1.1B-Chat-v1.0", 1100048384ULL, "TinyLlama-1.1B-Chat-v1.0", "", "TinyLlama", "Chat", "v1.0", "1.1B", "TinyLlama 1.1B Chat v1.0"},
    {"unsloth/DeepSeek-R1-Distill-Qwen-1_5B-q4_k_m", 0ULL, "DeepSeek-R1-Distill-Qwen-1_5B-q4_k_m", "unsloth", "DeepSeek-R1-Distill-Qwen", "", "", "1.5B", "DeepSeek R1 Distill Qwen 1_5B Q4_K_M"},
    {"internlm2_5-7b-chat-1m", 7737708544ULL, "internlm2_5-7b-chat-1m", "", "internlm2_5", "chat-1m", "", "7B", "Internlm2_5 7b Chat 1m"},
    {"phi-2", 2779683840ULL, "phi-2", "", "phi", "", "2", "", "Phi 2"},
    {"gemma-3-1b-it", 999885952ULL, "gemma-3-1b-it", "", "gemma-3", "it", "", "1B", "Gemma 3 1b It"},
    {"v2-7B", 0ULL, "v2-7B", "", "v2", "", "", "7B", "v2 7B"},
    {"Bamboo-base-v0_1", 0ULL, "Bamboo-base-v0_1", "", "", "", "", "", "Bamboo Base V0_1"},
    {"iter3-llama-large-7B-LoRA-fp16", 0ULL, "iter3-llama-large-7B-LoRA-fp16", "", "iter3-llama-large", "LoRA", "", "7B", "Iter3 Llama Large 7B LoRA Fp16"},
    {"7B", 0ULL, "7B", "", "", "7B", "", "", "7B"},
    {"xl-model-XXL", 0ULL, "xl-model-XXL", "", "xl-model", "", "", "XXL", "Xl Model XXL"},
    {"Mistral-Large-Instruct-2407", 0ULL, "Mistral-Large-Instruct-2407", "", "Mistral", "Instruct", "2407", "Large", "Mistral Large Instruct 2407"},
    {"7B-base-chat-v1.2.3", 0ULL, "7B-base-chat-v1.2.3", "", "", "7B-base-chat", "v1.2.3", "", "7B Base Chat v1.2.3"},
    {"glm-4-9b-chat-1m", 9399951392ULL, "glm-4-9b-chat-1m", "", "glm-4", "chat-1m", "", "9B", "Glm 4 9b Chat 1m"},
    {"model-7B-7b-8x7B", 0ULL, "model-7B-7b-8x7B", "", "model", "", "", "7B-8x7B", "Model 7B 7b 8x7B"},
    {"m-bf16-bfp32-q8_0-iq4_x", 0ULL, "m-bf16-bfp32-q8_0-iq4_x", "", "", "", "", "", "M Bf16 Bfp32 Q8_0 Iq4_X"},
    {"x-100M", 800000000ULL, "x-100M", "", "x", "", "", "100M", "X 100M"},
    {"x-100M", 799999999ULL, "x-100M", "", "x", "", "", "100M", "X 100M"},
    {"x-15M", 8000000ULL, "x-15M", "", "x", "", "", "15M", "X 15M"},
    {"x-16M", 8000000ULL, "x-16M", "", "x", "16m", "", "", "X 16M"},
};

static const struct {
    const char *dir, *card, *config, *model_name;
    unsigned long long n_params;
    const char *file, *vocab_file, *keys;
} checkpoint_cases[] = {
    {"tales", NULL, NULL, NULL, 2427136ULL,
     "Tales-Q4_0", "Tales-vocab",
     "general.name=Tales\n"
    },
    {"Llama-3.2-1B-Instruct", "---\nlanguage:\n- en\n- de\nlibrary_name: transformers\ntags:\n- facebook\n- meta\npipeline_tag: text-generation\nlicense: llama3.2\nbase_model: meta-llama/Llama-3.2-1B\nextra_gated_prompt: >-\n  ### LLAMA 3.2 COMMUNITY LICENSE AGREEMENT\n\n\n  Llama 3.2 Version Release Date: September 25, 2024\n---\n# Model\n", "{\"_name_or_path\": \"meta-llama/Llama-3.2-1B-Instruct\"}", NULL, 1235814400ULL,
     "Llama-3.2-1B-Instruct-Q4_0", "Llama-3.2-Instruct-vocab",
     "general.name=Llama 3.2 1B Instruct\n"
     "general.organization=Meta Llama\n"
     "general.finetune=Instruct\n"
     "general.basename=Llama-3.2\n"
     "general.size_label=1B\n"
     "general.license=llama3.2\n"
     "general.base_model.count=1\n"
     "general.base_model.0.name=Llama 3.2 1B\n"
     "general.base_model.0.organization=Meta Llama\n"
     "general.base_model.0.repo_url=https://huggingface.co/meta-llama/Llama-3.2-1B\n"
     "general.tags=facebook|meta|text-generation\n"
     "general.languages=en|de\n"
    },
    {"snapshot", "---\nlicense: other\nlicense_name: qwen-research\nlicense_link: https://huggingface.co/Qwen/Qwen2.5-3B/blob/main/LICENSE\nbase_model:\n- Qwen/Qwen2.5-3B\n- https://huggingface.co/org/Other-7B-v0.3\n- https://example.com/models/x\ndatasets: [HuggingFaceFW/fineweb, \"https://huggingface.co/datasets/a/b\"]\nlanguage: [en]\ntags: []\n---\n", NULL, NULL, 3085938688ULL,
     "Snapshot-Q4_0", "Snapshot-vocab",
     "general.name=Snapshot\n"
     "general.license=other\n"
     "general.license.name=qwen-research\n"
     "general.license.link=https://huggingface.co/Qwen/Qwen2.5-3B/blob/main/LICENSE\n"
     "general.base_model.count=3\n"
     "general.base_model.0.name=Qwen2.5 3B\n"
     "general.base_model.0.organization=Qwen\n"
     "general.base_model.0.repo_url=https://huggingface.co/Qwen/Qwen2.5-3B\n"
     "general.base_model.1.name=Other 7B v0.3\n"
     "general.base_model.1.version=v0.3\n"
     "general.base_model.1.organization=Org\n"
     "general.base_model.1.repo_url=https://huggingface.co/org/Other-7B-v0.3\n"
     "general.base_model.2.repo_url=https://example.com/models/x\n"
     "general.dataset.count=2\n"
     "general.dataset.0.name=Fineweb\n"
     "general.dataset.0.organization=HuggingFaceFW\n"
     "general.dataset.0.repo_url=https://huggingface.co/HuggingFaceFW/fineweb\n"
     "general.dataset.1.repo_url=https://huggingface.co/datasets/a/b\n"
     "general.languages=en\n"
    },
    {"dir", "---\r\nname: Zephyr 7B Beta\r\nauthor: 'HF'\r\nversion: \"1.10\"\r\norganization: \"Hugging\\tFace\"\r\nbasename: zephyr\r\nfinetune: beta\r\nsize_label: 7B\r\ndescription: |\r\n  Two\r\n  lines\r\nurl: https://example.com\r\ndoi: 10.1/2\r\nrepo_url: https://example.com/git\r\nlicense: [mit, apache-2.0]\r\n---\r\n", "{\"_name_or_path\": \"HuggingFaceH4/zephyr-7b-beta\"}", NULL, 7241732096ULL,
     "zephyr-7B-beta-1.10-Q4_0", "zephyr-beta-1.10-vocab",
     "general.name=Zephyr 7B Beta\n"
     "general.author=HF\n"
     "general.version=1.10\n"
     "general.organization=Hugging\tFace\n"
     "general.finetune=beta\n"
     "general.basename=zephyr\n"
     "general.description=Two\n"
     "lines\n"
     "\n"
     "general.size_label=7B\n"
     "general.license=mit,apache-2.0\n"
     "general.source.url=https://example.com\n"
     "general.source.doi=10.1/2\n"
     "general.source.repo_url=https://example.com/git\n"
    },
    {"x", "---\nmodel_name: Card Name\nmodel_creator: Someone\nmodel_type: mistral\nbase_model_sources: mistralai/Mistral-7B-v0.1\n---\n", "{\"_name_or_path\": \"/data/models/x\"}", "Given Name", 0ULL,
     "mistral-Q4_0", "mistral-vocab",
     "general.name=Given Name\n"
     "general.author=Someone\n"
     "general.basename=mistral\n"
     "general.base_model.count=1\n"
     "general.base_model.0.name=Mistral 7B v0.1\n"
     "general.base_model.0.version=v0.1\n"
     "general.base_model.0.organization=Mistralai\n"
     "general.base_model.0.repo_url=https://huggingface.co/mistralai/Mistral-7B-v0.1\n"
    },
    {"Norway-7B", "---\nlanguage:\n- no\n- nb\ntags: one\n---\n", "{\"_name_or_path\": \"a/b/c\"}", NULL, 0ULL,
     "Norway-7B-Q4_0", "Norway-vocab",
     "general.name=Norway 7B\n"
     "general.basename=Norway\n"
     "general.size_label=7B\n"
     "general.tags=one\n"
     "general.languages=no|nb\n"
    },
    {"merge", "---\nbase_models:\n  - name: Base One\n    organization: Org\n    repo_url: https://example.com/1\n  - org/Two-3B-v2\n---\n", NULL, NULL, 0ULL,
     "Merge-Q4_0", "Merge-vocab",
     "general.name=Merge\n"
     "general.base_model.count=2\n"
     "general.base_model.0.name=Base One\n"
     "general.base_model.0.organization=Org\n"
     "general.base_model.0.repo_url=https://example.com/1\n"
     "general.base_model.1.name=Two 3B v2\n"
     "general.base_model.1.version=v2\n"
     "general.base_model.1.organization=Org\n"
     "general.base_model.1.repo_url=https://huggingface.co/org/Two-3B-v2\n"
    },
    {"anchors", "---\ntags: &t [a, b]\nlicense: mit\n? complex\n: value\nmodel-index:\n- results:\n  - {a: [1, {b: c}]}\n---\n", NULL, NULL, 0ULL,
     "Anchors-Q4_0", "Anchors-vocab",
     "general.name=Anchors\n"
     "general.license=mit\n"
     "general.tags=a|b\n"
    },
    {"no-front-matter", "# Title\n---\nlicense: mit\n---\n", NULL, NULL, 0ULL,
     "No-Front-Matter-Q4_0", "No-Front-Matter-vocab",
     "general.name=No Front Matter\n"
    },
    {"tabs-1B", "---\nlicense:\tmit\nlanguage:\n\t- en\n---\n", NULL, NULL, 0ULL,
     "tabs-1B-Q4_0", "tabs-vocab",
     "general.name=Tabs 1B\n"
     "general.basename=tabs\n"
     "general.size_label=1B\n"
     "general.license=mit\n"
     "general.languages=en\n"
    },
};

#endif

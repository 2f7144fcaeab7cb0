"""What config.json can say, by chance: for each family of random_checkpoints.py the arguments of its config class, among them
seldom what ferry refuses. Arguments that transformers does not take are drawn again."""
import math
import random

S, F, C, L = "sliding_attention", "full_attention", "conv", "linear_attention"


class Draw(random.Random):
    def one(self, *of):
        return self.choice(of)

    def yes(self, p=0.5):
        return self.random() < p

    def log(self, low, high):
        return float(f"{math.exp(self.uniform(math.log(low), math.log(high))):.4g}")

    def between(self, low, high):
        return round(self.uniform(low, high), 3)

    def seldom(self, key, value, p=0.04):
        """What ferry may refuse."""
        return {key: value} if self.yes(p) else {}


# --- configurations: each takes a Draw and gives the arguments of the config class -------------------------------------

def divisor(d, n):
    return d.one(*[i for i in range(1, n + 1) if n % i == 0])


def heads(d, own=True):
    """own: the class knows a head_dim apart from hidden_size."""
    n = d.one(1, 2, 3, 4, 6, 8)
    out = {"num_attention_heads": n, "num_key_value_heads": divisor(d, n)}
    if own and d.yes():
        return out | {"head_dim": d.one(4, 8, 12, 16, 20, 32, 64), "hidden_size": n * d.one(4, 8, 12, 20)}
    return out | {"hidden_size": n * d.one(8, 12, 16, 20, 32)}


def act(d, key="hidden_act"):
    usual = [] if d.yes() else [d.one("gelu", "gelu_pytorch_tanh", "relu", "gelu_new", "silu", "swish", "gelu_fast")]
    return {key: usual[0]} if usual else d.seldom(key, d.one("quick_gelu", "tanh", "relu6", "mish"))


def head_of(c):
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def sizes(d, own=True, eps="rms_norm_eps", act_key="hidden_act", layers=6):
    return heads(d, own) | act(d, act_key) | {
        "num_hidden_layers": d.randint(1, layers), "intermediate_size": d.one(16, 24, 33, 48, 64, 96, 130),
        "max_position_embeddings": d.one(128, 256, 1000, 4096), eps: d.log(1e-6, 3e-2),
        "tie_word_embeddings": d.yes()}


def factors(d, n):
    return [d.between(1, 4) for _ in range(n)]


def rotation(d, c, kinds=("default", "linear", "dynamic", "yarn", "llama3"), part=None):
    """part: a list of partial_rotary_factor, of a class that knows it."""
    kind = d.choice(kinds) if d.yes(0.6) else "default"
    out = {"rope_type": kind, "rope_theta": d.log(50, 1e7)}
    if part and d.yes():
        out["partial_rotary_factor"] = d.choice(part)
    if kind in ("linear", "dynamic", "yarn", "llama3"):
        out["factor"] = d.between(1, 16)
    if kind in ("yarn", "llama3"):
        out["original_max_position_embeddings"] = d.one(16, 32, 64, 100)
    if kind == "yarn":
        out |= {"beta_fast": d.one(32.0, 8.0, 16.0), "beta_slow": d.one(1.0, 0.5, 2.0)} if d.yes() else {}
        out |= {"attention_factor": d.between(0.7, 1.6)} if d.yes(0.3) else {}
        out |= {"mscale": d.between(0.5, 1.5), "mscale_all_dim": d.between(0.5, 1.5)} if d.yes(0.2) else {}
        out |= {"truncate": False} if d.yes(0.1) else {}
    if kind == "llama3":
        low = d.one(1.0, 2.0)
        out |= {"low_freq_factor": low, "high_freq_factor": low * d.one(2.0, 4.0, 4.5)}
    if kind == "longrope":
        n = int(head_of(c) * out.get("partial_rotary_factor", 1)) // 2
        out |= {"short_factor": factors(d, n), "long_factor": factors(d, n),
                "original_max_position_embeddings": d.one(16, 128)}
    return {"rope_parameters": out}


def types(d, n, p_full=0.35):
    return [F if d.yes(p_full) else S for _ in range(n)]


def window(d):
    return d.one(1, 2, 3, 5, 8, 13, 31, 200)


def windowed(d, c, p=0.8):
    """layer_types, or the class's own pattern."""
    c["sliding_window"] = window(d)
    if d.yes(p):
        c["layer_types"] = types(d, c["num_hidden_layers"])
    return c


def experts(d, key="num_experts", width="moe_intermediate_size"):
    n = d.one(1, 2, 4, 5, 8)
    return {key: n, "num_experts_per_tok": d.randint(1, min(n, 4)), width: d.one(8, 16, 24, 36)}


def llama(d):
    c = sizes(d)
    return c | rotation(d, c) | {"attention_bias": d.yes(0.3), "mlp_bias": d.yes(0.3)}


def mistral(d):
    c = sizes(d)
    return c | rotation(d, c) | {"sliding_window": d.one(None, window(d))}


def qwen(own):
    def config(d):
        c = sizes(d, own)
        c |= rotation(d, c, ("default", "linear", "dynamic", "yarn")) | {"use_sliding_window": d.yes()}
        c |= {"sliding_window": window(d), "max_window_layers": d.randint(0, c["num_hidden_layers"])}
        if own:
            c["attention_bias"] = d.yes(0.3)
        if c["use_sliding_window"] and d.yes(0.3):
            c["layer_types"] = types(d, c["num_hidden_layers"])
        return c
    return config


def gemma(d):
    c = sizes(d, True, act_key="hidden_activation") | d.seldom("attention_bias", True)
    return c | rotation(d, c, ("default", "linear", "yarn"))


def gemma1(d):
    """Its hidden_activation counts in transformers 4 and not in 5: hidden_act says it."""
    c = gemma(d)
    return {"hidden_act" if k == "hidden_activation" else k: v for k, v in c.items()}


def gemma2(d):
    c = windowed(d, gemma(d)) | {"query_pre_attn_scalar": d.one(256, 16, 37.5)}
    return c | {"attn_logit_softcapping": d.one(None, 50.0, 5.0), "final_logit_softcapping": d.one(None, 30.0, 7.0)}


def two_bases(d, c, kinds=("default", "linear", "yarn")):
    c["rope_parameters"] = {S: {"rope_type": "default", "rope_theta": d.log(50, 1e5)},
                            F: rotation(d, c, kinds)["rope_parameters"]}
    return c


def gemma3(d):
    c = gemma2(d) | {"attn_logit_softcapping": None}
    return two_bases(d, c) | d.seldom("use_bidirectional_attention", True)


def gemma3n(d):
    c = two_bases(d, windowed(d, gemma(d)), ("default", "linear"))
    n = c["num_hidden_layers"] = d.randint(1, 7)
    c["layer_types"] = types(d, n)
    width = [c["intermediate_size"], c["intermediate_size"] * 2]
    p = d.one(0.5, 0.9, 0.95)
    c |= {"num_kv_shared_layers": d.randint(0, n - 1), "final_logit_softcapping": d.one(30.0, 9.0),
          "hidden_size_per_layer_input": d.one(4, 8, 20), "laurel_rank": d.one(1, 4, 9), "altup_num_inputs": d.one(2, 3, 4),
          "vocab_size_per_layer_input": d.one(320, 352, 356), "altup_coef_clip": d.one(120.0, 5.0)}
    if d.yes():
        c["intermediate_size"] = [d.choice(width) for _ in range(n)]
    if d.yes(0.8):
        c["activation_sparsity_pattern"] = [d.one(0.0, p) for _ in range(n)]
    return c | d.seldom("altup_active_idx", 1) | d.seldom("altup_correct_scale", False)


def gemma4(d):
    c = gemma(d)
    n = c["num_hidden_layers"] = d.randint(1, 8)
    c |= {"head_dim": d.one(4, 8, 16, 20), "global_head_dim": d.one(8, 16, 32), "sliding_window": window(d)}
    if d.yes(0.8):
        c["layer_types"] = types(d, n)
    c |= {"num_kv_shared_layers": d.randint(0, n - 1), "use_double_wide_mlp": d.yes(0.3),
          "hidden_size_per_layer_input": d.one(0, 4, 8, 20), "vocab_size_per_layer_input": d.one(352, 356),
          "final_logit_softcapping": d.one(None, 30.0, 9.0), "attention_k_eq_v": d.yes(0.3)}
    if d.yes(0.3):
        c["num_global_key_value_heads"] = divisor(d, c["num_attention_heads"])
    c["rope_parameters"] = {S: {"rope_type": "default", "rope_theta": d.log(50, 1e5)},
                            F: {"rope_type": "proportional", "rope_theta": d.log(50, 1e6)}}
    if d.yes(0.8):
        c["rope_parameters"][F]["partial_rotary_factor"] = d.one(0.25, 0.5, 1.0)
    if d.yes(0.2):
        c["rope_parameters"][F] = {"rope_type": "default", "rope_theta": d.log(50, 1e6)}
    return c | d.seldom("use_bidirectional_attention", d.one("all", "vision"))


def phi(d):
    c = sizes(d, False, eps="layer_norm_eps")
    c["tie_word_embeddings"] = d.yes(0.04)
    return c | rotation(d, c, ("default", "linear", "dynamic"), [0.25, 0.5, 1.0]) | d.seldom("qk_layernorm", True)


def phi3(d):
    c = sizes(d, False)
    c |= rotation(d, c, ("default", "longrope"), [0.5, 0.75, 1.0])
    c["original_max_position_embeddings"] = c["rope_parameters"].get("original_max_position_embeddings", 4096)
    return c | {"sliding_window": d.one(None, window(d))}


def glm(d):
    c = sizes(d) | {"attention_bias": d.yes()}
    return c | rotation(d, c, ("default", "linear"), [0.25, 0.5, 1.0])


def multipliers(d):
    return {"embedding_multiplier": d.between(0.5, 12), "logits_scaling": d.between(0.3, 3),
            "residual_multiplier": d.between(0.2, 1.5), "attention_multiplier": d.log(0.05, 0.6)}


def granite(d):
    c = sizes(d, False) | multipliers(d) | {"attention_bias": d.yes(0.3), "mlp_bias": d.yes(0.3)}
    return c | rotation(d, c)


def granitemoe(shared):
    def config(d):
        c = sizes(d, False) | multipliers(d) | {"attention_bias": d.yes(0.3)} | experts(d, "num_local_experts", "intermediate_size")
        return c | rotation(d, c) | ({"shared_intermediate_size": d.one(0, 16, 24)} if shared else {})
    return config


def smollm3(d):
    c = sizes(d, False) | {"attention_bias": d.yes(0.3), "mlp_bias": d.yes(0.3)}
    n = c["num_hidden_layers"]
    c |= d.one({}, {"no_rope_layers": [d.one(0, 1) for _ in range(n)]}, {"no_rope_layer_interval": d.one(1, 2, 3)})
    if d.yes():
        c |= {"use_sliding_window": True, "sliding_window": window(d)}
    return c | rotation(d, c, ("default", "linear", "yarn"))


def olmo2(d):
    c = sizes(d, False) | {"attention_bias": d.yes(0.3)}
    return c | rotation(d, c, ("default", "linear", "dynamic", "yarn"))


def olmo3(d):
    c = windowed(d, olmo2(d))
    kind = d.one("default", "yarn")
    theta = d.log(50, 1e6)
    full = rotation(d, c, (kind,))["rope_parameters"] | {"rope_theta": theta}
    c["rope_parameters"] = {S: {"rope_type": "default", "rope_theta": theta if d.yes(0.8) else d.log(50, 1e6)}, F: full}
    return c


def olmoe(d):
    c = sizes(d, False) | {"attention_bias": d.yes(0.3)} | experts(d, "num_experts", "intermediate_size") | d.seldom("clip_qkv", 2.0)
    return c | rotation(d, c, ("default", "linear")) | {"norm_topk_prob": d.yes()}


def exaone4(d):
    c = windowed(d, sizes(d))
    if d.yes():
        c |= {"sliding_window": None, "sliding_window_pattern": None, "layer_types": [F] * c["num_hidden_layers"]}
    return c | rotation(d, c, ("default", "linear", "llama3"))


def ernie4_5(d):
    c = sizes(d) | d.seldom("use_bias", True)
    return c | rotation(d, c, ("default", "linear", "yarn"))


def hunyuan(d):
    c = sizes(d) | {"attention_bias": d.yes(0.2)}
    c["rope_parameters"] = {"rope_type": "default", "rope_theta": d.log(50, 1e6)}
    if d.yes(0.7):
        c["rope_parameters"] |= {"rope_type": "dynamic", "alpha": d.one(1.0, 50.0, 1000.0), "factor": 1.0}
    return c


def ministral3(d):
    c = sizes(d)
    rope = {"rope_type": "yarn", "rope_theta": d.log(50, 1e6), "factor": d.between(1, 16), "beta_fast": d.one(32.0, 8.0),
            "beta_slow": d.one(1.0, 0.5), "original_max_position_embeddings": d.one(8, 16, 40),
            "llama_4_scaling_beta": d.one(0.0, 0.1, 0.3)}
    if d.yes(0.8):
        rope |= {"mscale": 1.0, "mscale_all_dim": d.one(1.0, 1.0, 0.7)}
    return c | {"rope_parameters": rope, "sliding_window": d.one(None, None, None, window(d))}


def mixtral(d):
    c = sizes(d) | experts(d, "num_local_experts", "intermediate_size")
    return c | rotation(d, c, ("default", "linear", "llama3")) | {"sliding_window": d.one(None, window(d))}


def qwen_moe(shared):
    def config(d):
        c = sizes(d, not shared) | experts(d) | {"norm_topk_prob": d.yes()}
        c |= rotation(d, c, ("default", "linear", "yarn")) | d.seldom("decoder_sparse_step", 2) | d.seldom("mlp_only_layers", [0])
        return c | ({"shared_expert_intermediate_size": d.one(8, 20, 32), "qkv_bias": d.yes()} if shared else
                    {"attention_bias": d.yes(0.3)})
    return config


def gpt_oss(d):
    c = windowed(d, sizes(d), 0.5) | experts(d, "num_local_experts", "intermediate_size")
    c["hidden_act"] = "silu"                         # which the experts do not look at
    c |= d.seldom("hidden_act", "gelu")
    if d.yes(0.4):                                   # MXFP4 has blocks of 32
        c |= {"hidden_size": d.one(32, 64), "intermediate_size": d.one(32, 64)}
    c["rope_parameters"] = {"rope_type": "default", "rope_theta": d.log(50, 1e6)} if d.yes(0.2) else {
        "rope_type": "yarn", "rope_theta": d.log(50, 1e6), "factor": d.between(1, 32), "beta_fast": d.one(32.0, 8.0), "beta_slow": 1.0,
        "truncate": d.yes(0.1), "original_max_position_embeddings": d.one(16, 64)}
    if d.yes(0.1):
        del c["rope_parameters"]
    return c | d.seldom("swiglu_limit", 3.0) | {"attention_bias": d.yes(0.8)}


def lfm_layers(d, c):
    n = c["num_hidden_layers"]
    c["conv_L_cache"] = d.one(2, 3, 4, 7)
    if d.yes(0.9):
        c["layer_types"] = some(d, [C if d.yes(0.6) else F for _ in range(n)], F)
    return c | d.seldom("conv_bias", True)


def lfm2(d):
    c = lfm_layers(d, sizes(d, False, eps="norm_eps"))
    c.pop("hidden_act", None)
    if d.yes(0.7):
        c |= {"block_auto_adjust_ff_dim": True, "block_multiple_of": d.one(1, 8, 32), "block_ffn_dim_multiplier": d.one(1.0, 1.3, 0.7)}
    else:
        c["block_auto_adjust_ff_dim"] = False
    return c | rotation(d, c, ("default", "linear"))


def lfm2_moe(d):
    c = lfm_layers(d, sizes(d, False, eps="norm_eps")) | experts(d)
    c.pop("hidden_act", None)
    c |= {"num_dense_layers": d.randint(0, c["num_hidden_layers"]), "use_expert_bias": True, "norm_topk_prob": True}
    c |= d.seldom("use_expert_bias", False) | d.seldom("norm_topk_prob", False) | d.seldom("routed_scaling_factor", 2.0)
    return c | rotation(d, c, ("default", "linear"))


def lfm3(d):
    c = sizes(d, True, eps="norm_eps")
    c.pop("hidden_act", None)
    c |= {"head_dim": d.one(8, 16, 32), "conv_L_cache": d.one(2, 3, 7), "sliding_window": window(d),
          "layer_types": some(d, [d.one(C, C, S, F) for _ in range(c["num_hidden_layers"])], F)}
    full = d.one({"rope_type": "proportional", "partial_rotary_factor": d.one(0.25, 0.5, 1.0)}, {"rope_type": "default"})
    c["rope_parameters"] = {S: {"rope_type": "default", "rope_theta": d.log(50, 1e5)}, F: full | {"rope_theta": d.log(50, 1e6)}}
    return c | d.seldom("use_sandwich_norm", False) | d.seldom("use_attention_gate", False) | d.seldom("conv_bias", True)


def qwen3_5(d):
    c = silu(d, sizes(d))
    c["head_dim"] = d.one(8, 16, 32, 64)
    groups = d.one(1, 2, 3)
    c |= {"linear_num_key_heads": groups, "linear_num_value_heads": groups * d.one(1, 2, 3), "linear_key_head_dim": d.one(4, 8, 16, 20),
          "linear_value_head_dim": d.one(4, 8, 16, 24), "linear_conv_kernel_dim": d.one(2, 3, 4, 6)}
    n, every = c["num_hidden_layers"], d.one(1, 2, 3, 4)
    if d.yes(0.9):
        c["num_hidden_layers"] = n = max(n, every)
        c["layer_types"] = [F if (i + 1) % every == 0 else L for i in range(n)]
    else:
        c["layer_types"] = [d.one(F, L) for _ in range(n)]
    c |= rotation(d, c, ("default", "linear"), [0.25, 0.5, 1.0])
    pairs = int(c["head_dim"] * c["rope_parameters"].get("partial_rotary_factor", 0.25)) // 2
    if d.yes(0.7):
        c["rope_parameters"] |= {"mrope_section": [pairs - 2 * (pairs // 3), pairs // 3, pairs // 3], "mrope_interleaved": True}
    return c | d.seldom("attention_bias", True)


def silu(d, c):
    """The mixers have the same activation, which ferry computes as silu alone."""
    c["hidden_act"] = "silu"
    return c | d.seldom("hidden_act", "gelu")


def mamba(d):
    h = d.one(1, 2, 3, 4, 6, 8)
    return h, {"mamba_n_heads": h, "mamba_n_groups": divisor(d, h), "mamba_d_state": d.one(4, 8, 16, 20, 32), "mamba_d_conv": d.one(2, 3, 4),
               "mamba_chunk_size": d.one(4, 16, 256)}


def granitemoehybrid(d):
    c = silu(d, sizes(d, False)) | multipliers(d) | {"attention_bias": d.yes(0.2), "shared_intermediate_size": d.one(16, 24, 48)}
    n = c["num_hidden_layers"]
    h, m = mamba(d)
    expand = d.one(1, 2, 3)
    while expand * c["hidden_size"] % h:
        h, m = mamba(d)
    c |= m | {"mamba_expand": expand, "mamba_d_head": d.one("auto", expand * c["hidden_size"] // h)}
    c["layer_types"] = some(d, [d.one("mamba", "mamba", "attention") for _ in range(n)], "attention")
    if d.yes(0.2):
        c["layer_types"] = ["attention"] * n
    c |= experts(d, "num_local_experts", "intermediate_size") if d.yes(0.4) else {"num_local_experts": 0, "num_experts_per_tok": 0}
    c |= d.one({}, {"position_embedding_type": "rope"}, {"position_embedding_type": "nope"})
    return c | rotation(d, c, ("default", "linear")) | d.seldom("mamba_proj_bias", True) | d.seldom("mamba_conv_bias", False)


def some(d, types, one):
    """Mostly one layer of that type at least."""
    if one not in types and d.yes(0.9):
        types[d.randrange(len(types))] = one
    return types


def falcon_h1(d):
    c = silu(d, sizes(d)) | {"tie_word_embeddings": d.yes(0.2)}
    h, m = mamba(d)
    head = d.one(4, 8, 12)
    c |= m | {"mamba_d_ssm": h * head, "mamba_d_head": d.one("auto", head), "mamba_norm_before_gate": d.yes(0.2), "mamba_rms_norm": d.yes()}
    if d.yes(0.2) and 2 * c["hidden_size"] % h == 0:
        c |= {"mamba_d_ssm": None, "mamba_expand": 2, "mamba_d_head": "auto"}
    for key in ("embedding_multiplier", "lm_head_multiplier", "key_multiplier", "attention_out_multiplier", "attention_in_multiplier",
                "ssm_in_multiplier", "ssm_out_multiplier"):
        if d.yes(0.7) and not (c["tie_word_embeddings"] and key[:2] in ("em", "lm")):
            c[key] = d.between(0.3, 1.7)
    c |= {"mlp_multipliers": [d.between(0.3, 1.7) for _ in range(2)]} if d.yes() else {}
    c |= {"ssm_multipliers": [d.between(0.3, 1.7) for _ in range(5)]} if d.yes() else {}
    for key in ("attention_bias", "mlp_bias", "projectors_bias", "mamba_proj_bias"):
        c |= d.seldom(key, True, 0.02)
    return c | rotation(d, c, ("default", "linear")) | d.seldom("mamba_conv_bias", False) | d.seldom("time_step_limit", [0.1, 1.0])


def nemotron_h(d):
    c = sizes(d, True, eps="layer_norm_epsilon", act_key="mlp_hidden_act")
    c.pop("mlp_hidden_act", None)
    if d.yes(0.1):
        c["mlp_hidden_act"] = d.one("relu", "gelu", "silu")
    c |= {"head_dim": d.one(8, 16, 32)}
    h = d.one(1, 2, 4, 6)
    c |= {"mamba_num_heads": h, "mamba_head_dim": d.one(4, 8, 12), "n_groups": divisor(d, h), "ssm_state_size": d.one(4, 8, 20),
          "conv_kernel": d.one(2, 3, 4), "chunk_size": d.one(4, 16, 128)}
    del c["num_hidden_layers"]
    c["tie_word_embeddings"] = d.yes(0.04)           # transformers keeps two matrices all the same
    c["layers_block_type"] = some(d, [d.one(L, L, F, "mlp") for _ in range(d.randint(1, 8))], F)
    c |= d.seldom("mamba_hidden_act", "gelu") | d.seldom("time_step_limit", [0.05, 2.0])
    for key in ("attention_bias", "mlp_bias", "mamba_proj_bias", "use_bias"):
        c |= d.seldom(key, True, 0.02)
    return c | d.seldom("use_conv_bias", False)


def minicpm3(d):
    n = d.one(1, 2, 3, 4, 6)
    c = sizes(d, False) | {"num_attention_heads": n, "num_key_value_heads": n, "hidden_size": n * d.one(8, 16, 24)}
    c |= {"q_lora_rank": d.one(8, 24, 40), "kv_lora_rank": d.one(8, 16, 20), "qk_nope_head_dim": d.one(4, 8, 20),
          "qk_rope_head_dim": d.one(4, 8, 12), "v_head_dim": d.one(None, 4, 8, 20)}
    c |= d.seldom("scale_emb", 3) | d.seldom("scale_depth", None, 0.1) | d.seldom("scale_depth", 2.0) | d.seldom("q_lora_rank", None)
    c |= d.seldom("dim_model_base", None) | d.seldom("attention_bias", True)
    rope = {"rope_type": "default", "rope_theta": d.log(50, 1e6)}
    if d.yes(0.7):
        k = c["qk_rope_head_dim"] // 2
        rope |= {"rope_type": "longrope", "short_factor": factors(d, k), "long_factor": factors(d, k),
                 "original_max_position_embeddings": d.one(16, c["max_position_embeddings"])}
    return c | {"rope_parameters": rope}


def gpt2(d):
    n = d.one(1, 2, 3, 4, 6)
    return {"n_embd": n * d.one(8, 12, 20), "n_head": n, "n_layer": d.randint(1, 5), "n_positions": d.one(128, 200), "n_inner": d.one(None, 24, 50),
            "layer_norm_epsilon": d.log(1e-6, 1e-2), "tie_word_embeddings": d.yes(0.7)} | act(d, "activation_function") | d.seldom(
                "scale_attn_by_inverse_layer_idx", True) | d.seldom("scale_attn_weights", False)


def opt(d):
    n = d.one(1, 2, 3, 4, 6)
    size = n * d.one(8, 12, 20)
    return {"hidden_size": size, "word_embed_proj_dim": size, "num_attention_heads": n, "num_hidden_layers": d.randint(1, 5), "ffn_dim": d.one(24, 50),
            "max_position_embeddings": d.one(128, 200), "do_layer_norm_before": True, "tie_word_embeddings": d.yes(0.8)} | act(
                d, "activation_function") | d.seldom("enable_bias", False) | d.seldom("do_layer_norm_before", False)


def gpt_neox(d):
    c = sizes(d, False, eps="layer_norm_eps") | {"use_parallel_residual": d.yes(), "attention_bias": d.yes(0.8)}
    del c["num_key_value_heads"]
    return c | rotation(d, c, ("default", "linear"), [0.25, 0.5, 1.0])


def codegen(d):
    n = d.one(4, 8, 12)
    head = d.one(8, 12, 20)
    return {"n_embd": n * head, "n_head": n, "n_layer": d.randint(1, 4), "n_positions": d.one(128, 200), "rotary_dim": d.one(4, 8),
            "n_inner": d.one(None, 50), "layer_norm_epsilon": d.log(1e-6, 1e-2), "tie_word_embeddings": False} | act(d, "activation_function")


def falcon(d):
    c = sizes(d, False, eps="layer_norm_epsilon", act_key="activation")
    del c["num_key_value_heads"], c["intermediate_size"]
    n = c["num_attention_heads"]
    c |= {"ffn_hidden_size": d.one(24, 50, 4 * c["hidden_size"]), "bias": False, "parallel_attn": True}
    c |= {"new_decoder_architecture": True, "num_kv_heads": divisor(d, n)} if d.yes() else {
        "new_decoder_architecture": False, "multi_query": d.yes(0.7)}
    c |= d.seldom("alibi", True) | d.seldom("bias", True) | d.seldom("parallel_attn", False) | d.seldom("num_ln_in_parallel_attn", 1)
    return c | rotation(d, c, ("default", "linear"))


def stablelm(d):
    c = sizes(d, False, eps="layer_norm_eps") | {"use_qkv_bias": d.yes()} | d.seldom("qk_layernorm", True) | d.seldom("use_parallel_residual", True)
    return c | rotation(d, c, ("default", "linear"), [0.25, 0.5, 1.0])


def starcoder2(d):
    c = sizes(d, False, eps="norm_epsilon") | {"use_bias": d.yes(0.8), "sliding_window": d.one(None, window(d))}
    return c | rotation(d, c, ("default", "linear", "yarn"))


# family: (model_type, the folder of tests/data/families whose tokenizer it gets, configuration)
FAMILIES = {
    "llama": ("llama", "llama", llama), "mistral": ("mistral", "mistral", mistral), "qwen2": ("qwen2", "qwen2", qwen(False)),
    "qwen3": ("qwen3", "qwen3", qwen(True)), "gemma": ("gemma", "gemma", gemma1), "gemma2": ("gemma2", "gemma2", gemma2),
    "gemma3": ("gemma3_text", "gemma3", gemma3), "gemma3n": ("gemma3n_text", "gemma3n", gemma3n), "gemma4": ("gemma4_text", "gemma4", gemma4),
    "phi": ("phi", "phi", phi), "phi3": ("phi3", "phi3", phi3), "glm": ("glm", "glm", glm), "glm4": ("glm4", "glm4", glm),
    "granite": ("granite", "granite", granite), "granitemoe": ("granitemoe", "granitemoe", granitemoe(False)),
    "granitemoeshared": ("granitemoeshared", "granitemoe", granitemoe(True)), "granite4": ("granitemoehybrid", "granite4", granitemoehybrid),
    "falcon-h1": ("falcon_h1", "falcon-h1", falcon_h1), "nemotron-h": ("nemotron_h", "nemotron-h", nemotron_h),
    "smollm3": ("smollm3", "smollm3", smollm3), "olmo2": ("olmo2", "olmo2", olmo2), "olmo3": ("olmo3", "olmo3", olmo3),
    "olmoe": ("olmoe", "olmoe", olmoe), "exaone4": ("exaone4", "exaone4", exaone4), "ernie45": ("ernie4_5", "ernie45", ernie4_5),
    "hunyuan": ("hunyuan_v1_dense", "hunyuan", hunyuan), "ministral3": ("ministral3", "ministral3", ministral3),
    "minicpm3": ("minicpm3", "minicpm3", minicpm3), "mixtral": ("mixtral", "mixtral", mixtral), "qwen2moe": ("qwen2_moe", "qwen2moe", qwen_moe(True)),
    "qwen3moe": ("qwen3_moe", "qwen3moe", qwen_moe(False)), "qwen35": ("qwen3_5_text", "qwen35", qwen3_5), "gpt-oss": ("gpt_oss", "gpt-oss", gpt_oss),
    "lfm2": ("lfm2", "lfm2", lfm2), "lfm2moe": ("lfm2_moe", "lfm2moe", lfm2_moe), "lfm3": ("lfm3", "lfm3", lfm3), "gpt2": ("gpt2", "gpt2", gpt2),
    "opt": ("opt", "opt", opt), "gptneox": ("gpt_neox", "gptneox", gpt_neox), "codegen": ("codegen", "codegen", codegen),
    "falcon": ("falcon", "falcon7", falcon), "stablelm": ("stablelm", "stablelm", stablelm), "starcoder2": ("starcoder2", "starcoder2", starcoder2),
}
# Multi-modal checkpoints: class, model_type, prefix of the text model's tensors, of its output matrix.
WRAPPERS = {
    "gemma3": ("Gemma3ForConditionalGeneration", "gemma3", "language_model.model.", "language_model.lm_head."),
    "gemma3n": ("Gemma3nForConditionalGeneration", "gemma3n", "model.language_model.", "lm_head."),
    "gemma4": ("Gemma4ForConditionalGeneration", "gemma4", "model.language_model.", "lm_head."),
    "qwen35": ("Qwen3_5ForConditionalGeneration", "qwen3_5", "model.language_model.", "lm_head."),
    "ministral3": ("Mistral3ForConditionalGeneration", "mistral3", "language_model.model.", "language_model.lm_head."),
}

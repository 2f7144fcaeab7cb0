/* The C interface of QNN as the reference library implements it: our own declarations, written from
 * our fact sheet and apart from those of runtime/backend/qnn, so that an error in one of them
 * shows. Sizes and offsets are asserted at the end; they are those of 64-bit Linux and Android.
 * Core API 2.18 to 2.40 (SDK 2.25 to 2.51). Strings and arrays belong to the caller, and are
 * copied. */
#ifndef FY_QNNREF_REF_ABI_H
#define FY_QNNREF_REF_ABI_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t abi_error; /* 0 or a code in the low 16 bits */
typedef void *abi_handle;

/* Error codes. */
enum {
    ABI_UNSUPPORTED = 1000,
    ABI_MEM_ALLOC = 1002,
    ABI_SYSTEM = 1003,
    ABI_ARGUMENT = 1004,
    ABI_NOT_PERMITTED = 1005,
    ABI_COMMUNICATION = 1007,
    ABI_COMMUNICATION_FATAL = 1011,
    ABI_GENERAL = 1100,
    ABI_UNKNOWN_PROPERTY = 2000,
    ABI_OP_VALIDATION = 3110,
    ABI_BACKEND_INIT = 4000,
    ABI_BACKEND_HANDLE = 4003,
    ABI_BACKEND_OPERATION = 4005,
    ABI_CONTEXT_ARGUMENT = 5000,
    ABI_CONTEXT_HANDLE = 5002,
    ABI_CONTEXT_NOT_FINALIZED = 5003,
    ABI_CONTEXT_BINARY_VERSION = 5004,
    ABI_CONTEXT_CREATE = 5005,
    ABI_CONTEXT_SIZE = 5007,
    ABI_CONTEXT_CONFIG = 5010,
    ABI_GRAPH_ARGUMENT = 6000,
    ABI_GRAPH_HANDLE = 6001,
    ABI_GRAPH_NAME = 6003,
    ABI_GRAPH_TENSOR = 6004,
    ABI_GRAPH_OP = 6005,
    ABI_GRAPH_UNCONNECTED = 6007,
    ABI_GRAPH_CREATE = 6020,
    ABI_GRAPH_FINALIZE = 6022,
    ABI_GRAPH_NOT_FINALIZED = 6023,
    ABI_GRAPH_FINALIZED = 6024,
    ABI_GRAPH_ABORTED = 6031,
    ABI_GRAPH_CONTEXT = 6039,
    ABI_TENSOR_HANDLE = 7001,
    ABI_TENSOR_NAME = 7003,
    ABI_TENSOR_PARAMETER = 7004,
    ABI_TENSOR_UNSUPPORTED = 7005,
    ABI_MEM_ARGUMENT = 8000,
    ABI_MEM_HANDLE = 8001,
    ABI_MEM_REGISTERED = 8002,
    ABI_MEM_MAP = 8003,
    ABI_MEM_SHAPE = 8004,
    ABI_MEM_TYPE = 8005,
    ABI_LOG_HANDLE = 11001,
    ABI_LOG_ARGUMENT = 11002,
    ABI_PROFILE_HANDLE = 12001,
    ABI_PROFILE_ARGUMENT = 12002,
    ABI_PERF_ARGUMENT = 13000,
    ABI_DEVICE_HANDLE = 14000,
    ABI_DEVICE_CONFIG = 14001,
    ABI_SYSTEM_ARGUMENT = 30000,
    ABI_SYSTEM_HANDLE = 30001,
    ABI_SYSTEM_MALFORMED = 30010,
};

/* Data types: the hexadecimal digits spell the bits, the leading one the kind. */
enum {
    ABI_I8 = 0x008,
    ABI_I16 = 0x016,
    ABI_I32 = 0x032,
    ABI_I64 = 0x064,
    ABI_UI8 = 0x108,
    ABI_UI16 = 0x116,
    ABI_UI32 = 0x132,
    ABI_F16 = 0x216,
    ABI_F32 = 0x232,
    ABI_S8 = 0x308,
    ABI_S16 = 0x316,
    ABI_S32 = 0x332,
    ABI_U8 = 0x408,
    ABI_U16 = 0x416,
    ABI_U32 = 0x432,
    ABI_BOOL = 0x508,
};

enum { ABI_APP_WRITE, ABI_APP_READ, ABI_APP_READWRITE, ABI_NATIVE, ABI_STATIC, ABI_NULL };
enum { ABI_RAW, ABI_MEMHANDLE };
enum { ABI_DEFINED = 1, ABI_UNDEFINED = 0x7FFFFFFF };
enum { ABI_SCALE_OFFSET, ABI_AXIS, ABI_BW, ABI_BW_AXIS, ABI_BLOCK, ABI_BLOCKWISE };

typedef struct {
    uint32_t major, minor, patch;
} abi_version;

typedef struct {
    float scale; /* real = (q + offset) * scale */
    int32_t offset;
} abi_scale_offset;

typedef struct {
    int32_t axis;
    abi_scale_offset *scales; /* one a channel */
    uint32_t n_blocks;        /* along the axis that is summed over */
    uint32_t bits;
    uint32_t storage; /* 0: block_scales8, 1: block_scales16 */
    union {
        uint8_t *block_scales8; /* channel by channel */
        uint16_t *block_scales16;
    } u;
} abi_blockwise;

typedef struct {
    uint32_t definition;
    uint32_t encoding;
    union {
        abi_scale_offset scale_offset;
        struct {
            int32_t axis;
            uint32_t n;
            abi_scale_offset *scales;
        } axis;
        struct {
            uint32_t bits;
            float scale;
            int32_t offset;
        } bw;
        struct {
            uint32_t bits;
            int32_t axis;
            uint32_t n;
            float *scales;
            int32_t *offsets; /* NULL: all 0 */
        } bw_axis;
        struct {
            uint32_t *size; /* rank */
            abi_scale_offset *scales;
        } block;
        abi_blockwise *blockwise;
        uint64_t raw[4];
    } u;
} abi_quant;

typedef struct {
    void *data;
    uint32_t size;
} abi_buffer;

typedef struct {
    uint32_t id;
    const char *name;
    uint32_t type;
    uint32_t data_format;
    uint32_t data_type;
    abi_quant quant;
    uint32_t rank;
    uint32_t *dims;
    uint32_t mem_type;
    union {
        abi_buffer buffer;
        abi_handle mem;
    } u;
} abi_tensor1;

typedef struct {
    uint32_t version; /* 1 or 2 */
    union {
        abi_tensor1 v1;
        struct {
            abi_tensor1 v1;
            uint8_t *is_dynamic;
            uint32_t sparse[3];
            uint8_t is_produced;
        } v2;
    } u;
} abi_tensor;

typedef struct {
    uint32_t data_type;
    union {
        float f32;
        uint64_t u64;
        uint32_t u32;
        int32_t i32;
        uint8_t b8;
        const char *text;
    } u;
} abi_scalar;

typedef struct {
    uint32_t type; /* 0 scalar, 1 tensor */
    const char *name;
    union {
        abi_scalar scalar;
        abi_tensor tensor;
    } u;
} abi_param;

typedef struct {
    uint32_t version; /* 1 */
    struct {
        const char *name, *package, *type;
        uint32_t n_params;
        abi_param *params;
        uint32_t n_inputs;
        abi_tensor *inputs;
        uint32_t n_outputs;
        abi_tensor *outputs;
    } v1;
} abi_op;

typedef struct { /* backend, context, graph and device configuration */
    uint32_t option;
    union {
        void *custom;
        const void *pointer;
        const char *const *names;
        uint64_t u64;
        uint32_t u32;
        uint8_t u8;
    } u;
} abi_config;

typedef struct {
    uint32_t option;
    union {
        struct {
            uint32_t type;
            float value;
        } optimization;
        uint64_t u64;
        uint32_t u32;
        bool b;
    } u;
} abi_graph_custom; /* callers send 64 bytes */

typedef struct {
    uint32_t option;
    union {
        struct {
            abi_handle first;
            uint64_t spill_bytes;
        } group;
        uint64_t u64;
        bool b;
    } u;
} abi_context_custom;

typedef struct {
    uint32_t type;
    size_t vtcm_mb;
    uint32_t soc;
    bool signed_pd, dlbc;
    uint32_t arch;
} abi_device_extension;

typedef struct {
    uint32_t version;
    struct {
        uint32_t id, type;
        void *extension;
    } v1;
} abi_core_info;

typedef struct {
    uint32_t version;
    struct {
        uint32_t id, type, n_cores;
        abi_core_info *cores;
        abi_device_extension *extension;
    } v1;
} abi_hardware_info;

typedef struct {
    uint32_t version;
    struct {
        uint32_t n;
        abi_hardware_info *devices;
    } v1;
} abi_platform_info;

typedef struct {
    const char *package, *name, *target;
} abi_operation_name;

typedef struct {
    struct {
        uint32_t rank;
        uint32_t *dims;
        const char *config;
    } shape;
    uint32_t data_type;
    uint32_t mem_type; /* 1 one buffer a tensor, 2 custom, 3 DMA */
    union {
        int32_t fd;
        struct {
            int32_t fd;
            void *data;
        } dma;
        void *custom; /* abi_shared_buffer */
    } u;
} abi_mem_descriptor;

typedef struct {
    uint32_t type; /* 1: shared buffer */
    uint64_t size; /* of the whole buffer */
    union {
        struct {
            int32_t fd;
            uint64_t offset;
        } shared;
        uint64_t raw[2];
    } u;
} abi_shared_buffer;

typedef struct {
    uint32_t type, unit;
    uint64_t value;
    const char *identifier;
} abi_event_data;

typedef struct {
    uint32_t option; /* 1: sixteen words of clocks and latencies */
    union {
        uint32_t words[16];
        uint32_t u32;
    } u;
} abi_power_config;

typedef struct {
    uint32_t type; /* 0: perf */
    struct {
        abi_error (*create)(uint32_t device, uint32_t core, uint32_t *id);
        abi_error (*destroy)(uint32_t id);
        abi_error (*set_power)(uint32_t id, const abi_power_config **list);
        abi_error (*set_memory)(uint32_t device, uint32_t core, const void **list);
    } perf;
} abi_infrastructure;

typedef void abi_log_callback(const char *format, uint32_t level, uint64_t time, va_list args);

typedef struct {
    uint32_t backend_id;
    const char *name;
    abi_version core, backend;
    void (*slots[])(void); /* as many as the minor version has */
} abi_provider;

typedef struct {
    uint32_t backend_id;
    const char *name;
    abi_version version;
    void (*slots[4])(void);
} abi_system_provider;

/* Answers of the system library. */
typedef struct {
    uint32_t version;
    const char *name;
    uint32_t n_inputs;
    abi_tensor *inputs;
    uint32_t n_outputs;
    abi_tensor *outputs;
} abi_graph_info1;

typedef struct {
    abi_graph_info1 v1;
    uint32_t n_updateable;
    abi_tensor *updateable;
} abi_graph_info2;

typedef struct {
    abi_graph_info1 v1;
    uint32_t n_updateable;
    abi_tensor *updateable;
    uint32_t blob_size;
    void *blob;
    uint32_t start_op, end_op;
} abi_graph_info3;

typedef struct {
    uint32_t version;
    uint64_t spill_bytes;
    uint32_t vtcm_bytes;
    uint32_t optimization;
    uint8_t dlbc;
    uint64_t hvx_threads;
} abi_graph_blob;

typedef struct {
    uint32_t backend_id;
    const char *build_id;
    abi_version core, backend;
    const char *soc;
    abi_version hardware_blob, context_blob;
    uint32_t hardware_size;
    void *hardware;
    uint64_t context_size;
    uint32_t n_tensors;
    abi_tensor *tensors;
    uint32_t n_graphs;
    void *graphs;
    abi_platform_info *platform; /* version 2 */
} abi_binary_info2;

typedef struct {
    uint32_t backend_id;
    const char *build_id;
    abi_version core, backend;
    const char *soc;
    abi_version context_blob;
    uint64_t context_size;
    uint32_t n_tensors;
    abi_tensor *tensors;
    uint32_t n_graphs;
    void *graphs;
    abi_platform_info *platform;
    uint32_t meta_size;
    void *meta;
    uint32_t soc_model;
} abi_binary_info3;

typedef struct {
    uint32_t version; /* 1, 2, 3 */
    union {
        abi_binary_info2 v2; /* version 1 ends before platform */
        abi_binary_info3 v3;
    } u;
} abi_binary_info;

#define ABI_SIZE(type, size)     _Static_assert(sizeof(type) == (size), #type)
#define ABI_AT(type, member, at) _Static_assert(offsetof(type, member) == (at), #type "." #member)
ABI_SIZE(abi_version, 12);
ABI_SIZE(abi_scale_offset, 8);
ABI_SIZE(abi_blockwise, 40);
ABI_AT(abi_blockwise, scales, 8);
ABI_AT(abi_blockwise, n_blocks, 16);
ABI_AT(abi_blockwise, bits, 20);
ABI_AT(abi_blockwise, storage, 24);
ABI_AT(abi_blockwise, u, 32);
ABI_SIZE(abi_quant, 40);
ABI_AT(abi_quant, u, 8);
ABI_AT(abi_quant, u.axis.n, 12);
ABI_AT(abi_quant, u.axis.scales, 16);
ABI_AT(abi_quant, u.bw.scale, 12);
ABI_AT(abi_quant, u.bw.offset, 16);
ABI_AT(abi_quant, u.bw_axis.axis, 12);
ABI_AT(abi_quant, u.bw_axis.n, 16);
ABI_AT(abi_quant, u.bw_axis.scales, 24);
ABI_AT(abi_quant, u.bw_axis.offsets, 32);
ABI_AT(abi_quant, u.block.scales, 16);
ABI_SIZE(abi_buffer, 16);
ABI_SIZE(abi_tensor1, 112);
ABI_AT(abi_tensor1, name, 8);
ABI_AT(abi_tensor1, type, 16);
ABI_AT(abi_tensor1, data_format, 20);
ABI_AT(abi_tensor1, data_type, 24);
ABI_AT(abi_tensor1, quant, 32);
ABI_AT(abi_tensor1, rank, 72);
ABI_AT(abi_tensor1, dims, 80);
ABI_AT(abi_tensor1, mem_type, 88);
ABI_AT(abi_tensor1, u, 96);
ABI_SIZE(abi_tensor, 144);
ABI_AT(abi_tensor, u, 8);
ABI_AT(abi_tensor, u.v2.is_dynamic, 120);
ABI_AT(abi_tensor, u.v2.sparse, 128);
ABI_AT(abi_tensor, u.v2.is_produced, 140);
ABI_SIZE(abi_scalar, 16);
ABI_AT(abi_scalar, u, 8);
ABI_SIZE(abi_param, 160);
ABI_AT(abi_param, name, 8);
ABI_AT(abi_param, u, 16);
ABI_SIZE(abi_op, 80);
ABI_AT(abi_op, v1.package, 16);
ABI_AT(abi_op, v1.type, 24);
ABI_AT(abi_op, v1.n_params, 32);
ABI_AT(abi_op, v1.params, 40);
ABI_AT(abi_op, v1.n_inputs, 48);
ABI_AT(abi_op, v1.inputs, 56);
ABI_AT(abi_op, v1.n_outputs, 64);
ABI_AT(abi_op, v1.outputs, 72);
ABI_SIZE(abi_config, 16);
ABI_AT(abi_graph_custom, u, 8);
ABI_AT(abi_graph_custom, u.optimization.value, 12);
ABI_SIZE(abi_context_custom, 24);
ABI_AT(abi_context_custom, u.group.spill_bytes, 16);
ABI_SIZE(abi_device_extension, 32);
ABI_AT(abi_device_extension, vtcm_mb, 8);
ABI_AT(abi_device_extension, soc, 16);
ABI_AT(abi_device_extension, signed_pd, 20);
ABI_AT(abi_device_extension, dlbc, 21);
ABI_AT(abi_device_extension, arch, 24);
ABI_SIZE(abi_core_info, 24);
ABI_AT(abi_core_info, v1.id, 8);
ABI_AT(abi_core_info, v1.extension, 16);
ABI_SIZE(abi_hardware_info, 40);
ABI_AT(abi_hardware_info, v1.cores, 24);
ABI_AT(abi_hardware_info, v1.extension, 32);
ABI_SIZE(abi_platform_info, 24);
ABI_AT(abi_platform_info, v1.devices, 16);
ABI_SIZE(abi_operation_name, 24);
ABI_SIZE(abi_mem_descriptor, 48);
ABI_AT(abi_mem_descriptor, data_type, 24);
ABI_AT(abi_mem_descriptor, u, 32);
ABI_AT(abi_mem_descriptor, u.dma.data, 40);
ABI_SIZE(abi_shared_buffer, 32);
ABI_AT(abi_shared_buffer, size, 8);
ABI_AT(abi_shared_buffer, u.shared.offset, 24);
ABI_SIZE(abi_event_data, 24);
ABI_SIZE(abi_power_config, 68);
ABI_SIZE(abi_infrastructure, 40);
ABI_AT(abi_infrastructure, perf.create, 8);
ABI_AT(abi_provider, core, 16);
ABI_AT(abi_provider, backend, 28);
ABI_AT(abi_provider, slots, 40);
ABI_AT(abi_system_provider, version, 16);
ABI_AT(abi_system_provider, slots, 32);
ABI_SIZE(abi_graph_info1, 48);
ABI_SIZE(abi_graph_info2, 64);
ABI_SIZE(abi_graph_info3, 88);
ABI_AT(abi_graph_info3, blob, 72);
ABI_AT(abi_graph_blob, spill_bytes, 8);
ABI_AT(abi_graph_blob, vtcm_bytes, 16);
ABI_AT(abi_graph_blob, hvx_threads, 32);
ABI_SIZE(abi_binary_info, 144);
ABI_AT(abi_binary_info, u.v2.core, 24);
ABI_AT(abi_binary_info, u.v2.hardware_blob, 56);
ABI_AT(abi_binary_info, u.v2.hardware, 88);
ABI_AT(abi_binary_info, u.v2.tensors, 112);
ABI_AT(abi_binary_info, u.v2.graphs, 128);
ABI_AT(abi_binary_info, u.v2.platform, 136);
ABI_AT(abi_binary_info, u.v3.context_blob, 56);
ABI_AT(abi_binary_info, u.v3.context_size, 72);
ABI_AT(abi_binary_info, u.v3.tensors, 88);
ABI_AT(abi_binary_info, u.v3.graphs, 104);
ABI_AT(abi_binary_info, u.v3.platform, 112);
ABI_AT(abi_binary_info, u.v3.meta, 128);
ABI_AT(abi_binary_info, u.v3.soc_model, 136);
#undef ABI_SIZE
#undef ABI_AT

#endif

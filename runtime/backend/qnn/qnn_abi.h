/* The C interface of QNN, the library that drives Qualcomm's NPU: our own declarations of what
 * ferry calls, written from a fact sheet that was checked by programs against public releases. No
 * header of the vendor is used or needed.
 *
 * It holds for core interface 2.18 (SDK 2.25) and newer on 64-bit x86 and ARM. Releases append to
 * the table of functions; the structs below kept their sizes, with three exceptions that are named
 * where they are declared. Handles are opaque. Lists of configurations are arrays of pointers that
 * end with NULL, read only during the call. Unused bytes of a union must be zero. Enumerators are
 * numbers of the interface and are passed as uint32_t. */
#ifndef FY_BACKEND_QNN_QNN_ABI_H
#define FY_BACKEND_QNN_QNN_ABI_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t fy_qnn_error; /* 0: done; else the code is in the low 16 bits */
typedef void *fy_qnn_handle;

typedef struct {
    uint32_t major, minor, patch;
} fy_qnn_version;

/* --- numbers ---------------------------------------------------------------------------------- */

enum { FY_QNN_BACKEND_HTP = 6 };
#define FY_QNN_REFERENCE_NAME "FERRY_REFERENCE" /* of the provider of ferry's own library */

/* What the hexadecimal digits spell: the kind, then the bits. "Fixed" types carry an encoding. */
enum {
    FY_QNN_INT_32 = 0x32,
    FY_QNN_UINT_32 = 0x132,
    FY_QNN_FLOAT_16 = 0x216,
    FY_QNN_FLOAT_32 = 0x232,
    FY_QNN_SFIXED_8 = 0x308,
    FY_QNN_SFIXED_16 = 0x316,
    FY_QNN_SFIXED_32 = 0x332,
    FY_QNN_UFIXED_8 = 0x408,
    FY_QNN_UFIXED_16 = 0x416,
    FY_QNN_BOOL_8 = 0x508,
    FY_QNN_UNDEFINED = 0x7fffffff, /* of quantization, too */
};

enum {
    FY_QNN_APP_WRITE = 0, /* an input of the graph */
    FY_QNN_APP_READ = 1,  /* an output of the graph; its other nodes may read it */
    FY_QNN_NATIVE = 3,    /* between nodes */
    FY_QNN_STATIC = 4,    /* a constant, copied when it is created */
};

enum { FY_QNN_RAW = 0, FY_QNN_MEMHANDLE = 1 }; /* memory of a tensor */

/* Encodings: real = (q + offset) * scale. */
enum {
    FY_QNN_SCALE_OFFSET = 0,
    FY_QNN_AXIS = 1,      /* one scale a channel */
    FY_QNN_BW_AXIS = 3,   /* the same for fewer bits than the type has */
    FY_QNN_BLOCKWISE = 5, /* a scale a channel times a small integer a block ("LPBQ") */
};

enum { FY_QNN_PARAM_SCALAR = 0, FY_QNN_PARAM_TENSOR = 1 };
enum { FY_QNN_LOG_ERROR = 1, FY_QNN_LOG_WARN = 2, FY_QNN_LOG_INFO = 3 };

/* Errors that ferry tells apart. */
enum {
    FY_QNN_ENOT_SUPPORTED = 1000,
    FY_QNN_EMEMORY = 1002,
    FY_QNN_ESYSTEM = 1003,
    FY_QNN_ERESTARTED = 1007, /* the DSP crashed and came back: every object is invalid */
    FY_QNN_ELOST = 1011,      /* the DSP crashed */
    FY_QNN_EVALIDATE = 3110,
    FY_QNN_EBINARY_ARG = 5000,
    FY_QNN_EBINARY_VERSION = 5004,
    FY_QNN_EBINARY_CREATE = 5005,
    FY_QNN_ECONFIG = 5010,
    FY_QNN_EGRAPH_CONTEXT = 6039, /* the graph's context is lost */
    FY_QNN_EDEVICE_CONFIG = 14001,
};

/* --- tensors ---------------------------------------------------------------------------------- */

typedef struct {
    float scale;
    int32_t offset;
} fy_qnn_scale_offset;

typedef struct {
    int32_t axis;
    uint32_t n;
    fy_qnn_scale_offset *channel; /* [n] */
} fy_qnn_axis;

typedef struct {
    uint32_t bits;
    int32_t axis;
    uint32_t n;
    float *scales;    /* [n] */
    int32_t *offsets; /* [n] */
} fy_qnn_bw_axis;

typedef struct {
    int32_t axis;
    fy_qnn_scale_offset *channel; /* one a channel */
    uint32_t n_blocks;            /* of a channel */
    uint32_t scale_bits;          /* 4: block_scales hold 1..16 */
    uint32_t storage;             /* 0: a byte each */
    uint8_t *block_scales;        /* [channels * n_blocks] */
} fy_qnn_blockwise;

typedef struct {
    uint32_t definition; /* 1: defined; or FY_QNN_UNDEFINED */
    uint32_t encoding;
    union {
        fy_qnn_scale_offset scale_offset;
        fy_qnn_axis axis;
        fy_qnn_bw_axis bw_axis;
        fy_qnn_blockwise *blockwise;
        uint64_t raw[4];
    } u;
} fy_qnn_quant;

typedef struct {
    void *data;
    uint32_t bytes;
} fy_qnn_buffer;

typedef struct {
    uint32_t id; /* the library's */
    const char *name;
    uint32_t kind;   /* FY_QNN_APP_WRITE, ... */
    uint32_t format; /* 0: dense */
    uint32_t type;
    fy_qnn_quant quant;
    uint32_t rank;
    uint32_t *dims;
    uint32_t memory;
    union {
        fy_qnn_buffer buffer;
        fy_qnn_handle handle;
    } u;
} fy_qnn_tensor_v1;

typedef struct {
    uint32_t version; /* 1; 2 is longer, begins alike and is only read */
    union {
        fy_qnn_tensor_v1 v1;
        uint64_t raw[17];
    } u;
} fy_qnn_tensor;

/* --- nodes ------------------------------------------------------------------------------------ */

typedef struct {
    uint32_t type;
    union {
        uint64_t u64;
        uint32_t u32;
        int32_t i32;
        float f32;
        uint8_t b8;
    } u;
} fy_qnn_scalar;

typedef struct {
    uint32_t kind;
    const char *name;
    union {
        fy_qnn_scalar scalar;
        fy_qnn_tensor tensor;
    } u;
} fy_qnn_param;

typedef struct {
    uint32_t version; /* 1 */
    const char *name, *package, *op;
    uint32_t n_params;
    fy_qnn_param *params;
    uint32_t n_inputs;
    fy_qnn_tensor *inputs;
    uint32_t n_outputs;
    fy_qnn_tensor *outputs;
} fy_qnn_op; /* passed by value */

#define FY_QNN_PACKAGE "qti.aisw"

typedef struct {
    const char *package, *name, *target;
} fy_qnn_op_name;

/* --- configurations --------------------------------------------------------------------------- */

/* An option of a backend, a device, a context or a graph. */
typedef struct {
    uint32_t option;
    union {
        void *custom; /* option 0: one of the structs below */
        const char *const *names;
        uint64_t u64;
        uint32_t u32;
    } u;
} fy_qnn_option;

enum { FY_QNN_CUSTOM = 0, FY_QNN_DEVICE_PLATFORM = 1, FY_QNN_CONTEXT_PRIORITY = 1 };

/* Options of graphs and contexts. Releases read 16 to 64 bytes of it. */
typedef struct {
    uint32_t option;
    union {
        bool flag;
        uint32_t u32;
        uint64_t u64;
        struct {
            uint32_t type;
            float value;
        } optimization;
        struct {
            fy_qnn_handle first;
            uint64_t spill_bytes;
        } group;
        uint64_t raw[7];
    } u;
} fy_qnn_htp_config;

enum {
    FY_QNN_GRAPH_OPTIMIZATION = 1,
    FY_QNN_GRAPH_PRECISION = 2,
    FY_QNN_GRAPH_VTCM_MB = 3,
    FY_QNN_GRAPH_HVX_THREADS = 6,
    FY_QNN_OPTIMIZE_FINALIZE = 3, /* type of FY_QNN_GRAPH_OPTIMIZATION; value 1, 2 or 3 */
    FY_QNN_CONTEXT_SHARE_WEIGHTS = 1,
    FY_QNN_CONTEXT_GROUP = 2,
    FY_QNN_CONTEXT_IO_ESTIMATE = 6,
};

/* The chip that a device stands for, as an option of deviceCreate. From SDK 2.48 on the number lies
 * at 8, before at 4: both are written. */
typedef struct {
    uint32_t option; /* 0 */
    uint32_t soc_at_4, soc_at_8;
    uint32_t zero[13];
} fy_qnn_htp_soc;

typedef struct {
    uint32_t type; /* 0: on the chip */
    uint64_t vtcm_mb;
    uint32_t soc;
    bool signed_pd, dlbc;
    uint32_t arch; /* 75 for V75 */
} fy_qnn_htp_chip;

typedef struct {
    uint32_t version, unused; /* version 1 */
    uint32_t id, type;
    void *extension;
} fy_qnn_core;

typedef struct {
    uint32_t version, unused; /* version 1 */
    uint32_t id, type, n_cores;
    fy_qnn_core *cores;
    fy_qnn_htp_chip *chip;
} fy_qnn_hardware;

typedef struct {
    uint32_t version, unused; /* version 1 */
    uint32_t n_devices;
    fy_qnn_hardware *devices;
} fy_qnn_platform;

/* --- shared memory ---------------------------------------------------------------------------- */

enum { FY_QNN_MEMORY_CUSTOM = 2, FY_QNN_HTP_SHARED_BUFFER = 1 };

typedef struct {
    uint32_t type;  /* FY_QNN_HTP_SHARED_BUFFER */
    uint64_t bytes; /* of the whole buffer */
    int32_t fd;
    uint64_t offset; /* of the tensor */
} fy_qnn_htp_memory;

typedef struct {
    uint32_t rank;
    uint32_t *dims;
    const char *shape_config;
    uint32_t type, kind; /* kind: FY_QNN_MEMORY_CUSTOM */
    union {
        fy_qnn_htp_memory *custom;
        uint64_t raw[2];
    } u;
} fy_qnn_memory;

/* --- clocks ----------------------------------------------------------------------------------- */

enum {
    FY_QNN_POWER_CLOCKS = 1, /* words: id, set, scales, mode, set, sleep us, set, stays awake, set,
                                bus corner least, target, most, set, core corner least, ... */
    FY_QNN_POWER_CALL_US = 2,
    FY_QNN_POWER_POLL_US = 3,
    FY_QNN_POWER_MATRIX = 5,
};

typedef struct {
    uint32_t option;
    union {
        uint32_t words[16];
        uint32_t us;
    } u;
} fy_qnn_power_config;

typedef struct {
    uint32_t type; /* 0: the functions are these */
    fy_qnn_error (*create)(uint32_t device, uint32_t core, uint32_t *id);
    fy_qnn_error (*destroy)(uint32_t id);
    fy_qnn_error (*set)(uint32_t id, const fy_qnn_power_config *const *list);
    void (*set_memory)(void);
} fy_qnn_infrastructure;

/* --- the library of what a binary holds ------------------------------------------------------- */

typedef struct {
    uint32_t version;
    const char *name;
    uint32_t n_inputs;
    fy_qnn_tensor *inputs;
    uint32_t n_outputs;
    fy_qnn_tensor *outputs;
} fy_qnn_graph_info; /* entries of an array whose stride depends on the version: qnn_system.c */

/* Bodies of versions 1 and 2 (hw_blob, context tensors, then graphs) and of version 3 differ. */
typedef struct {
    uint32_t version;
    union {
        struct {
            uint32_t backend;
            const char *build_id;
            fy_qnn_version core, backend_api;
            const char *soc;
            fy_qnn_version hw_blob, context_blob;
            uint32_t hw_blob_bytes;
            const void *hw_blob_data;
            uint64_t context_blob_bytes;
            uint32_t n_context_tensors;
            fy_qnn_tensor *context_tensors;
            uint32_t n_graphs;
            const void *graphs;
        } v1;
        struct {
            uint32_t backend;
            const char *build_id;
            fy_qnn_version core, backend_api;
            const char *soc;
            fy_qnn_version context_blob;
            uint64_t context_blob_bytes;
            uint32_t n_context_tensors;
            fy_qnn_tensor *context_tensors;
            uint32_t n_graphs;
            const void *graphs;
            fy_qnn_platform *platform;
            uint32_t meta_bytes;
            const void *meta;
            uint32_t soc_model;
        } v3;
        uint64_t raw[17];
    } u;
} fy_qnn_binary_info;

typedef struct {
    fy_qnn_error (*create)(fy_qnn_handle *out);
    fy_qnn_error (*binary_info)(fy_qnn_handle h, void *binary, uint64_t bytes,
                                const fy_qnn_binary_info **out, uint64_t *info_bytes);
    fy_qnn_error (*metadata)(fy_qnn_handle h, const void *binary, uint64_t bytes,
                             const fy_qnn_binary_info **out);
    fy_qnn_error (*free)(fy_qnn_handle h);
} fy_qnn_system_table;

typedef struct {
    uint32_t backend;
    const char *name;
    fy_qnn_version version;
    fy_qnn_system_table table;
} fy_qnn_system_provider;

/* --- the table of functions ------------------------------------------------------------------- */

typedef void (*fy_qnn_log)(const char *fmt, uint32_t level, uint64_t timestamp, va_list args);
typedef void (*fy_qnn_slot)(void);
typedef const fy_qnn_option *const *fy_qnn_options; /* NULL, or ended by NULL */

/* Members by their index. Every release from core 2.18 on has them and appends more, which ferry
 * does not call. Any may be NULL. */
typedef struct {
    fy_qnn_error (*has_property)(uint32_t key); /* 0 */
    fy_qnn_error (*backend_create)(fy_qnn_handle log, fy_qnn_options c, fy_qnn_handle *out);
    fy_qnn_slot backend_set_config;
    fy_qnn_error (*backend_api_version)(fy_qnn_version out[2]);
    fy_qnn_error (*backend_build_id)(const char **out);
    fy_qnn_slot backend_register_op_package; /* 5 */
    fy_qnn_error (*backend_operations)(fy_qnn_handle b, uint32_t *n, const fy_qnn_op_name **out);
    fy_qnn_error (*backend_validate)(fy_qnn_handle b, fy_qnn_op op);
    fy_qnn_error (*backend_free)(fy_qnn_handle b);
    fy_qnn_error (*context_create)(fy_qnn_handle b, fy_qnn_handle device, fy_qnn_options c,
                                   fy_qnn_handle *out);
    fy_qnn_slot context_set_config; /* 10 */
    fy_qnn_error (*context_binary_size)(fy_qnn_handle c, uint64_t *bytes);
    fy_qnn_error (*context_binary)(fy_qnn_handle c, void *p, uint64_t bytes, uint64_t *written);
    fy_qnn_error (*context_create_from_binary)(fy_qnn_handle b, fy_qnn_handle device,
                                               fy_qnn_options c, const void *p, uint64_t bytes,
                                               fy_qnn_handle *out, fy_qnn_handle profile);
    fy_qnn_error (*context_free)(fy_qnn_handle c, fy_qnn_handle profile);
    fy_qnn_error (*graph_create)(fy_qnn_handle c, const char *name, fy_qnn_options configs,
                                 fy_qnn_handle *out); /* 15 */
    fy_qnn_slot graph_create_subgraph;
    fy_qnn_error (*graph_set_config)(fy_qnn_handle g, fy_qnn_options c);
    fy_qnn_error (*graph_add_node)(fy_qnn_handle g, fy_qnn_op op);
    fy_qnn_error (*graph_finalize)(fy_qnn_handle g, fy_qnn_handle profile, fy_qnn_handle signal);
    fy_qnn_error (*graph_retrieve)(fy_qnn_handle c, const char *name, fy_qnn_handle *out); /* 20 */
    fy_qnn_error (*graph_execute)(fy_qnn_handle g, const fy_qnn_tensor *in, uint32_t n_in,
                                  fy_qnn_tensor *out, uint32_t n_out, fy_qnn_handle profile,
                                  fy_qnn_handle signal);
    fy_qnn_slot graph_execute_async;
    fy_qnn_slot tensor_create_context;
    fy_qnn_error (*tensor_create)(fy_qnn_handle g, fy_qnn_tensor *t);
    fy_qnn_error (*log_create)(fy_qnn_log f, uint32_t level, fy_qnn_handle *out); /* 25 */
    fy_qnn_slot log_set_level;
    fy_qnn_error (*log_free)(fy_qnn_handle log);
    fy_qnn_slot profile_[7]; /* 28 to 34 */
    fy_qnn_error (*memory_register)(fy_qnn_handle c, const fy_qnn_memory *m, uint32_t n,
                                    fy_qnn_handle *out); /* 35 */
    fy_qnn_error (*memory_deregister)(const fy_qnn_handle *m, uint32_t n);
    fy_qnn_error (*device_platform)(fy_qnn_handle log, const fy_qnn_platform **out);
    fy_qnn_error (*device_free_platform)(fy_qnn_handle log, const fy_qnn_platform *p);
    fy_qnn_error (*device_infrastructure)(const fy_qnn_infrastructure **out);
    fy_qnn_error (*device_create)(fy_qnn_handle log, fy_qnn_options c, fy_qnn_handle *out); /* 40 */
    fy_qnn_slot device_set_config;
    fy_qnn_error (*device_info)(fy_qnn_handle d, const fy_qnn_platform **out);
    fy_qnn_error (*device_free)(fy_qnn_handle d);
    fy_qnn_slot signal_[4]; /* 44 to 47 */
    fy_qnn_error (*error_message)(fy_qnn_error code, const char **out);
    fy_qnn_error (*error_verbose)(fy_qnn_error code, const char **out);
    fy_qnn_error (*error_free_verbose)(const char *text); /* 50 */
} fy_qnn_table;

typedef struct {
    uint32_t backend;
    const char *name;
    fy_qnn_version core, backend_api;
    fy_qnn_table table;
} fy_qnn_provider;

typedef fy_qnn_error (*fy_qnn_get_providers)(const fy_qnn_provider ***list, uint32_t *n);
typedef fy_qnn_error (*fy_qnn_system_get_providers)(const fy_qnn_system_provider ***list,
                                                    uint32_t *n);

/* --- sizes and offsets, as the interface has them --------------------------------------------- */

#define FY_QNN_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define FY_QNN_AT(type, member, at) \
    _Static_assert(offsetof(type, member) == (at), #type "." #member)

FY_QNN_SIZE(fy_qnn_version, 12);
FY_QNN_SIZE(fy_qnn_scale_offset, 8);
FY_QNN_SIZE(fy_qnn_axis, 16);
FY_QNN_AT(fy_qnn_axis, channel, 8);
FY_QNN_SIZE(fy_qnn_bw_axis, 32);
FY_QNN_AT(fy_qnn_bw_axis, scales, 16);
FY_QNN_AT(fy_qnn_bw_axis, offsets, 24);
FY_QNN_SIZE(fy_qnn_blockwise, 40);
FY_QNN_AT(fy_qnn_blockwise, n_blocks, 16);
FY_QNN_AT(fy_qnn_blockwise, block_scales, 32);
FY_QNN_SIZE(fy_qnn_quant, 40);
FY_QNN_AT(fy_qnn_quant, u, 8);
FY_QNN_SIZE(fy_qnn_buffer, 16);
FY_QNN_SIZE(fy_qnn_tensor_v1, 112);
FY_QNN_AT(fy_qnn_tensor_v1, kind, 16);
FY_QNN_AT(fy_qnn_tensor_v1, type, 24);
FY_QNN_AT(fy_qnn_tensor_v1, quant, 32);
FY_QNN_AT(fy_qnn_tensor_v1, rank, 72);
FY_QNN_AT(fy_qnn_tensor_v1, dims, 80);
FY_QNN_AT(fy_qnn_tensor_v1, memory, 88);
FY_QNN_AT(fy_qnn_tensor_v1, u, 96);
FY_QNN_SIZE(fy_qnn_tensor, 144);
FY_QNN_AT(fy_qnn_tensor, u, 8);
FY_QNN_SIZE(fy_qnn_scalar, 16);
FY_QNN_SIZE(fy_qnn_param, 160);
FY_QNN_AT(fy_qnn_param, u, 16);
FY_QNN_SIZE(fy_qnn_op, 80);
FY_QNN_AT(fy_qnn_op, n_params, 32);
FY_QNN_AT(fy_qnn_op, params, 40);
FY_QNN_AT(fy_qnn_op, outputs, 72);
FY_QNN_SIZE(fy_qnn_op_name, 24);
FY_QNN_SIZE(fy_qnn_option, 16);
FY_QNN_SIZE(fy_qnn_htp_config, 64);
FY_QNN_AT(fy_qnn_htp_config, u, 8);
FY_QNN_SIZE(fy_qnn_htp_soc, 64);
FY_QNN_SIZE(fy_qnn_htp_chip, 32);
FY_QNN_AT(fy_qnn_htp_chip, soc, 16);
FY_QNN_AT(fy_qnn_htp_chip, arch, 24);
FY_QNN_SIZE(fy_qnn_core, 24);
FY_QNN_AT(fy_qnn_core, id, 8);
FY_QNN_SIZE(fy_qnn_hardware, 40);
FY_QNN_AT(fy_qnn_hardware, id, 8);
FY_QNN_AT(fy_qnn_hardware, chip, 32);
FY_QNN_SIZE(fy_qnn_platform, 24);
FY_QNN_AT(fy_qnn_platform, n_devices, 8);
FY_QNN_SIZE(fy_qnn_htp_memory, 32);
FY_QNN_AT(fy_qnn_htp_memory, offset, 24);
FY_QNN_SIZE(fy_qnn_memory, 48);
FY_QNN_AT(fy_qnn_memory, u, 32);
FY_QNN_SIZE(fy_qnn_power_config, 68);
FY_QNN_SIZE(fy_qnn_infrastructure, 40);
FY_QNN_AT(fy_qnn_infrastructure, create, 8);
FY_QNN_SIZE(fy_qnn_binary_info, 144);
FY_QNN_AT(fy_qnn_binary_info, u.v1.hw_blob_bytes, 80);
FY_QNN_AT(fy_qnn_binary_info, u.v1.n_graphs, 120);
FY_QNN_AT(fy_qnn_binary_info, u.v3.n_graphs, 96);
FY_QNN_AT(fy_qnn_binary_info, u.v3.soc_model, 136);
FY_QNN_AT(fy_qnn_system_provider, table, 32);
FY_QNN_AT(fy_qnn_provider, table, 40);
FY_QNN_AT(fy_qnn_table, graph_create, 15 * 8);
FY_QNN_AT(fy_qnn_table, log_create, 25 * 8);
FY_QNN_AT(fy_qnn_table, memory_register, 35 * 8);
FY_QNN_AT(fy_qnn_table, device_create, 40 * 8);
FY_QNN_AT(fy_qnn_table, error_message, 48 * 8);
FY_QNN_SIZE(fy_qnn_table, 51 * 8);

#endif

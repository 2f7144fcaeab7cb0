/* Options of the verbs that compute with a model: on which CPUs, what computes it, and how the file
 * comes into memory. */
#ifndef FY_CLI_MACHINE_H
#define FY_CLI_MACHINE_H

#include "base/cpu.h"
#include "base/err.h"
#include "base/opts.h"
#include "model/model.h"

/* A verb embeds this in its `options`; the rows take the field. */
typedef struct {
    const char *cpu_mask, *cpu_range;
    int backend; /* fy_machine_backend */
    const char *qnn_lib;
    int power;  /* fy_qnn_power_level */
    int canary; /* fy_canary_mode */
    int preset; /* fy_preset_mode */
    bool mlock, mlock_hot, no_mmap, gpu_hot;
    int64_t memory; /* bytes that the weights may take; 0 or less: any number */
} fy_machine_options;

typedef enum {
    FY_BACKEND_AUTO,   /* the CPU where the whole model is there, else what its graphs want */
    FY_BACKEND_CPU,    /* the whole model */
    FY_BACKEND_CHUNKS, /* graph after graph (model/chain.h) on the CPU */
    FY_BACKEND_QNN,    /* the same, compiled, on an NPU's library */
} fy_machine_backend;

#define FY_ROW_BACKEND_OF(field)                                                                 \
    {                                                                                            \
        .group = "Machine", .name = "backend", .kind = FY_OPT_CHOICE,                            \
        .arg = "auto|cpu|chunks|qnn", .offset = offsetof(options, field.backend), .def = "auto", \
        .help = "What computes the model: cpu, the whole of it; chunks, the graphs that it was " \
                "cut into for an NPU, one after the other on the CPU; qnn, the graphs that "     \
                "'ferry compile' made, on a QNN library; auto, the whole where it is there, "    \
                "else its graphs."                                                               \
    }
#define FY_ROW_QNN_LIB_OF(field)                                                               \
    {                                                                                          \
        .group = "Machine", .name = "qnn-lib", .kind = FY_OPT_STR, .arg = "DIR",               \
        .offset = offsetof(options, field.qnn_lib),                                            \
        .help = "Where --backend qnn finds its library: a directory, or 'reference', ferry's " \
                "own, which computes on the CPU what an NPU would. Without it: the qnn_libs/ " \
                "of the workspace, else FERRY_QNN_SDK.",                                       \
        .file = FY_FILE_OR_WORD                                                                \
    }
#define FY_ROW_POWER_OF(field)                                                                     \
    {                                                                                              \
        .group = "Machine", .name = "power", .kind = FY_OPT_CHOICE, .arg = "burst|balanced|saver", \
        .offset = offsetof(options, field.power), .def = "burst",                                  \
        .help = "Clocks of the NPU while --backend qnn computes: the highest, nominal ones, or "   \
                "what the system gives."                                                           \
    }

#define FY_ROW_CANARY_OF(field)                                                                  \
    {                                                                                            \
        .group = "Machine", .name = "canary", .kind = FY_OPT_CHOICE, .arg = "once|always|off",   \
        .offset = offsetof(options, field.canary), .def = "once",                                \
        .help = "When --backend qnn checks that the NPU computes the model, on 48 tokens whose " \
                "answers 'ferry compile' has kept: once for every package, library and chip, "   \
                "always, or never."                                                              \
    }

#define FY_ROW_PRESET_OF(field)                                                                   \
    {                                                                                             \
        .group = "Machine", .name = "preset", .kind = FY_OPT_CHOICE, .arg = "auto|never",         \
        .offset = offsetof(options, field.preset), .def = "auto",                                 \
        .help = "Of a package whose graphs follow a preset prompt (kv_size): auto, use its keys " \
                "and values; where the package does not list its tokens, every text follows it. " \
                "never, leave it out."                                                            \
    }

#define FY_ROW_CPU_MASK_OF(field)                                                                 \
    {                                                                                             \
        .group = "Machine", .name = "cpu-mask", .alias = "C", .kind = FY_OPT_STR, .arg = "HEX",   \
        .offset = offsetof(options, field.cpu_mask),                                              \
        .help = "Run on these CPUs only: f0 is CPUs 4 to 7. With --cpu-range on those of either." \
    }
#define FY_ROW_CPU_RANGE_OF(field)                                                  \
    {                                                                               \
        .group = "Machine", .name = "cpu-range", .alias = "Cr", .kind = FY_OPT_STR, \
        .arg = "LO-HI", .offset = offsetof(options, field.cpu_range),               \
        .help = "Run on these CPUs only: 4-7 is CPUs 4 to 7; 4- all from 4 on."     \
    }
#define FY_ROW_MLOCK_OF(field)                                                                    \
    {                                                                                             \
        .group = "Machine", .name = "mlock", .kind = FY_OPT_FLAG,                                 \
        .offset = offsetof(options, field.mlock),                                                 \
        .help = "Read the whole file into memory before anything is computed, and keep it there." \
    }
#define FY_ROW_MLOCK_HOT_OF(field)                                                                \
    {                                                                                             \
        .group = "Machine", .name = "mlock-hot", .kind = FY_OPT_FLAG,                             \
        .offset = offsetof(options, field.mlock_hot),                                             \
        .help = "Keep in memory what every token reads and the hot neurons, and read the others " \
                "when they are needed: for a model larger than memory, from quantize --hot."      \
    }
#define FY_ROW_MEMORY_OF(field)                                                                \
    {                                                                                          \
        .group = "Machine", .name = "memory", .kind = FY_OPT_SIZE, .arg = "SIZE",              \
        .offset = offsetof(options, field.memory), .min = 1, .max = 1e15, .line_only = true,   \
        .help = "The weights take at most SIZE of memory: of a model with experts those that " \
                "were not used for longest make room, and are read again when needed."         \
    }
#define FY_ROW_GPU_HOT_OF(field)                                                                 \
    {                                                                                            \
        .group = "Machine", .name = "gpu-hot", .kind = FY_OPT_FLAG,                              \
        .offset = offsetof(options, field.gpu_hot),                                              \
        .help = "Let a GPU compute the hot neurons, through OpenCL, while the CPU computes the " \
                "others: of a file from quantize --hot. The last bits of results differ then."   \
    }
#define FY_ROW_NO_MMAP_OF(field)                                                            \
    {                                                                                       \
        .group = "Machine", .name = "no-mmap", .kind = FY_OPT_FLAG,                         \
        .offset = offsetof(options, field.no_mmap),                                         \
        .help = "Read the file into memory of its own, in huge pages where there are any, " \
                "instead of using it where it lies. The file may change then."              \
    }
#define FY_ROWS_MACHINE_OF(field)                                                       \
    FY_ROW_BACKEND_OF(field), FY_ROW_QNN_LIB_OF(field), FY_ROW_POWER_OF(field),         \
        FY_ROW_CANARY_OF(field), FY_ROW_PRESET_OF(field), FY_ROW_CPU_MASK_OF(field),    \
        FY_ROW_CPU_RANGE_OF(field), FY_ROW_MLOCK_OF(field), FY_ROW_MLOCK_HOT_OF(field), \
        FY_ROW_GPU_HOT_OF(field), FY_ROW_MEMORY_OF(field), FY_ROW_NO_MMAP_OF(field)

/* Pins the calling thread, and all threads it starts later, as the options ask. Call it before
 * anything counts CPUs or starts threads. */
int fy_machine_pin(const fy_machine_options *o, fy_err *e);

/* Opens the model as the options ask, with a progress display when it is read. path: a GGUF file,
 * or the directory of a cut model (ggml/weights.gguf, qnn/config.json). qnn: the directory with
 * the graphs of a file, libs: that of the NPU's libraries; NULL: none. */
fy_model *fy_machine_open(const fy_machine_options *o, const char *path, const char *qnn,
                          const char *libs, fy_err *e);
/* The same of a workspace, too: its main model with its graphs. */
fy_model *fy_machine_open_any(const fy_machine_options *o, const char *path, fy_err *e);

#endif

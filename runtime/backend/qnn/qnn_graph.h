/* Graphs of a QNN library, composed tensor by tensor and node by node: what compiling and the
 * library's checks are made of.
 *
 * Order: device -> context -> graphs -> finalize each -> binary of the context -> free the context,
 * then the device. A device comes before the first node: without one a library checks nodes against
 * its oldest chip. Functions that return fy_qnn_error give the library's answer and no message, for
 * callers to whom a refusal is an answer (fy_qnn_fail makes one); those that take fy_err fail as
 * others do. */
#ifndef FY_BACKEND_QNN_QNN_GRAPH_H
#define FY_BACKEND_QNN_QNN_GRAPH_H

#include "backend/qnn/qnn_lib.h"
#include "base/arena.h"

/* The chip that a device stands for; soc 0: the one that the library runs on. */
typedef struct {
    uint32_t soc; /* QNN's number of the chip: 57 is SM8650 */
    uint32_t arch;
    uint32_t vtcm_mb;
} fy_qnn_chip;

int fy_qnn_device_new(const fy_qnn_lib *lib, const fy_qnn_chip *chip, fy_qnn_handle *out,
                      fy_err *e);
void fy_qnn_device_free(const fy_qnn_lib *lib, fy_qnn_handle device);
/* The chip of this machine; false where the library does not tell. */
bool fy_qnn_own_chip(const fy_qnn_lib *lib, fy_qnn_chip *out);

/* share_weights: static tensors of the same name, shape and bytes are kept once for all graphs. */
int fy_qnn_context_new(const fy_qnn_lib *lib, fy_qnn_handle device, bool share_weights,
                       fy_qnn_handle *out, fy_err *e);
/* Where the NPU has room for its inputs and outputs, too, if the library can look for that. */
int fy_qnn_context_load(const fy_qnn_lib *lib, fy_qnn_handle device, const void *binary,
                        uint64_t bytes, fy_qnn_handle *out, fy_err *e);
void fy_qnn_context_free(const fy_qnn_lib *lib, fy_qnn_handle context);

/* The binary of a context whose graphs are final; the caller frees *out. */
int fy_qnn_context_binary(const fy_qnn_lib *lib, fy_qnn_handle context, uint8_t **out,
                          uint64_t *bytes, fy_err *e);

/* --- a graph ---------------------------------------------------------------------------------- */

typedef struct {
    const fy_qnn_lib *lib;
    fy_qnn_handle handle;
    fy_arena arena; /* names, shapes and encodings, as long as the graph is composed */
} fy_qnn_graph;

int fy_qnn_graph_new(const fy_qnn_lib *lib, fy_qnn_handle context, const char *name,
                     const fy_qnn_chip *chip, fy_qnn_graph *out, fy_err *e);
int fy_qnn_graph_retrieve(const fy_qnn_lib *lib, fy_qnn_handle context, const char *name,
                          fy_qnn_graph *out, fy_err *e);
/* Memory of the composer; the graph itself lives with its context. */
void fy_qnn_graph_release(fy_qnn_graph *g);

/* Encodings. Arrays are the caller's and have to live until the graph is final. */
fy_qnn_quant fy_qnn_no_quant(void);
fy_qnn_quant fy_qnn_quant_scale(float scale, int32_t offset);

/* A scale for each of n channels along an axis, in the graph's arena. bits: of the values, 8 or 4.
 * n_blocks > 0: of a channel, each with one of block_scales[n * n_blocks]. */
int fy_qnn_quant_channels(fy_qnn_graph *g, uint32_t axis, uint32_t n, const float *scales,
                          uint32_t bits, uint32_t n_blocks, const uint8_t *block_scales,
                          fy_qnn_quant *out, fy_err *e);

/* "u16"; NULL: a type that ferry does not know. And back: FY_QNN_UNDEFINED. */
const char *fy_qnn_type_name(uint32_t type);
uint32_t fy_qnn_type_of(fy_span name);
/* Elements of a tensor, and their size in bytes as the library wants them: 4-bit values take a
 * byte. 0: a type that ferry does not know. */
uint32_t fy_qnn_type_bytes(uint32_t type);
uint64_t fy_qnn_n_elements(const fy_qnn_tensor *t);
/* Element i: the code of a fixed type of 8 or 16 bits, else the number. */
float fy_qnn_element(const void *data, uint32_t type, uint64_t i);

/* A tensor whose `data` (of FY_QNN_STATIC, else NULL) the library copies at once. *out is a view of
 * the graph's arena: its id, and all that nodes need. */
fy_qnn_error fy_qnn_tensor_new(fy_qnn_graph *g, const char *name, uint32_t kind, uint32_t type,
                               const fy_qnn_quant *quant, uint32_t rank, const uint32_t *dims,
                               const void *data, fy_qnn_tensor **out);

/* --- a node ----------------------------------------------------------------------------------- */

enum { FY_QNN_NODE_PARAMS = 8, FY_QNN_NODE_INPUTS = 128, FY_QNN_NODE_OUTPUTS = 8 };

typedef struct {
    fy_qnn_op op;
    fy_qnn_param params[FY_QNN_NODE_PARAMS];
    fy_qnn_tensor inputs[FY_QNN_NODE_INPUTS], outputs[FY_QNN_NODE_OUTPUTS];
} fy_qnn_node;

/* Names are views, as long as the node is used. */
void fy_qnn_node_begin(fy_qnn_node *n, const char *name, const char *op);
void fy_qnn_node_u32(fy_qnn_node *n, const char *param, uint32_t value);
void fy_qnn_node_i32(fy_qnn_node *n, const char *param, int32_t value);
void fy_qnn_node_f32(fy_qnn_node *n, const char *param, float value);
void fy_qnn_node_bool(fy_qnn_node *n, const char *param, bool value);
/* A parameter that is a constant of 32-bit integers: `type` is FY_QNN_UINT_32 or FY_QNN_INT_32. */
fy_qnn_error fy_qnn_node_array(fy_qnn_graph *g, fy_qnn_node *n, const char *param, uint32_t type,
                               uint32_t rank, const uint32_t *dims, const void *values);
/* The parameters of a Conv2d that is a product: 1 x 1, stride 1, no padding, one group. */
fy_qnn_error fy_qnn_node_product(fy_qnn_graph *g, fy_qnn_node *n);
void fy_qnn_node_input(fy_qnn_node *n, const fy_qnn_tensor *t);
void fy_qnn_node_output(fy_qnn_node *n, const fy_qnn_tensor *t);

fy_qnn_error fy_qnn_node_validate(const fy_qnn_graph *g, const fy_qnn_node *n);
fy_qnn_error fy_qnn_node_add(fy_qnn_graph *g, const fy_qnn_node *n);
fy_qnn_error fy_qnn_graph_finalize(fy_qnn_graph *g);

/* Runs a final graph on memory of the caller: data[i] holds the elements of in[i] or out[i]. */
fy_qnn_error fy_qnn_graph_run(fy_qnn_graph *g, fy_qnn_tensor *const *in, void *const *in_data,
                              uint32_t n_in, fy_qnn_tensor *const *out, void *const *out_data,
                              uint32_t n_out);

/* The same with tensors that hold their memory. */
fy_qnn_error fy_qnn_graph_execute(const fy_qnn_graph *g, fy_qnn_tensor *in, uint32_t n_in,
                                  fy_qnn_tensor *out, uint32_t n_out);

#endif

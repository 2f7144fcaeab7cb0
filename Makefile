# ferry: one plain Makefile, no configure step. `make help` lists the targets.
#
#   MODE=release|debug|asan|tsan   TARGET=host|aarch64|aarch64-dynamic|android   V=1   WERROR=1
#
# Everything is built below build/TARGET/MODE; nothing is ever built inside the source tree.

MODE ?= release
TARGET ?= host
WERROR ?= $(CI)
SYSROOT ?= $(CURDIR)/build/sysroot
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
DESTDIR ?=

B := build/$(TARGET)/$(MODE)
PKG_CONFIG ?= pkg-config

# What the device builds link, and which of it a directory lacks.
STATIC_LIBS := libpcre2-8.a libutf8proc.a libjansson.a libsodium.a libevent_core.a
lacking = $(filter-out $(notdir $(wildcard $(STATIC_LIBS:%=$(1)/%))),$(STATIC_LIBS))

ifeq ($(TARGET),host)
  MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
  LIBS_RT := libpcre2-8 libutf8proc jansson
  LIBS_HOST := $(LIBS_RT) libarchive libzstd libcrypto libssl libedit libcurl yaml-0.1 libevent_core libevent_openssl
  DEP_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(LIBS_HOST) 2>/dev/null)
  DEP_LIBS := $(shell $(PKG_CONFIG) --libs $(LIBS_HOST) 2>/dev/null)
  OBJCOPY ?= objcopy
  CHECK_LIBS := -lcmocka
  CHECK_DEP_LIBS := $(DEP_LIBS)
else ifneq ($(filter aarch64 aarch64-dynamic,$(TARGET)),)
  # The device build: static, the runtime's verbs only, libraries from a private sysroot (scripts/bootstrap). The dynamic one
  # can load libraries: it runs the NPU's half on an emulated phone.
  MACHINE := aarch64
  ifneq ($(call lacking,$(SYSROOT)/usr/lib/aarch64-linux-gnu),)
    $(error TARGET=$(TARGET): SYSROOT=$(SYSROOT) holds no $(call lacking,$(SYSROOT)/usr/lib/aarch64-linux-gnu); run scripts/bootstrap once)
  endif
  CC := aarch64-linux-gnu-gcc
  ifeq ($(shell command -v $(CC)),)
    $(error TARGET=$(TARGET): there is no $(CC); run scripts/bootstrap once)
  endif
  AR := aarch64-linux-gnu-ar
  OBJCOPY := aarch64-linux-gnu-objcopy
  DEP_CFLAGS := -DFERRY_DEVICE $(if $(filter aarch64,$(TARGET)),-DFERRY_STATIC) -DPCRE2_STATIC -DUTF8PROC_STATIC -isystem $(SYSROOT)/usr/include \
                -isystem $(SYSROOT)/usr/include/aarch64-linux-gnu
  DEP_LIBS := -L$(SYSROOT)/usr/lib/aarch64-linux-gnu $(STATIC_LIBS:%=-l:%)
  ifeq ($(TARGET),aarch64)
    STATIC_LDFLAGS := -static -Wl,-T,scripts/no_unwind.ld
  endif
  TARGET_LDFLAGS := $(STATIC_LDFLAGS) -Wl,-z,max-page-size=16384 $(if $(filter release,$(MODE)),-s)
  # Unit tests are dynamic: Debian has no static cmocka.
  CHECK_LIBS := -l:libcmocka.so.0
  CHECK_DEP_LIBS := $(DEP_LIBS)
else ifeq ($(TARGET),android)
  # The same program for Android's C library and linker. The NDK brings the compiler, scripts/android_deps.sh
  # makes the libraries with it.
  MACHINE := aarch64
  SYSROOT_ANDROID ?= $(CURDIR)/build/sysroot-android
  NDK_NEED := expected the directory of an Android NDK, r25 or newer (TARGET=aarch64 needs none)
  NDK_BIN := $(firstword $(wildcard $(ANDROID_NDK_HOME)/toolchains/llvm/prebuilt/*/bin))
  CC := $(NDK_BIN)/aarch64-linux-android28-clang
  AR := $(NDK_BIN)/llvm-ar
  OBJCOPY := $(NDK_BIN)/llvm-objcopy
  ifeq ($(ANDROID_NDK_HOME),)
    $(error TARGET=android: ANDROID_NDK_HOME is not set; $(NDK_NEED))
  else ifeq ($(wildcard $(CC)),)
    $(error TARGET=android: ANDROID_NDK_HOME=$(ANDROID_NDK_HOME) holds no toolchains/llvm/prebuilt/*/bin/$(notdir $(CC)); $(NDK_NEED))
  else ifneq ($(call lacking,$(SYSROOT_ANDROID)/lib),)
    $(error TARGET=android: SYSROOT_ANDROID=$(SYSROOT_ANDROID) holds no $(addprefix lib/,$(call lacking,$(SYSROOT_ANDROID)/lib)); run scripts/android_deps.sh once)
  endif
  DEP_CFLAGS := -DFERRY_DEVICE -DPCRE2_STATIC -DUTF8PROC_STATIC -isystem $(SYSROOT_ANDROID)/include
  DEP_LIBS := -L$(SYSROOT_ANDROID)/lib $(STATIC_LIBS:%=-l:%)
  TARGET_CFLAGS := -fPIE
  TARGET_LDFLAGS := -pie -Wl,-z,max-page-size=16384 -Wl,-z,common-page-size=16384 -Wl,-z,noexecstack \
                    -Wl,-z,text -Wl,-z,relro -Wl,-z,now $(if $(filter release,$(MODE)),-s)
else
  $(error TARGET=$(TARGET) is unknown: host, aarch64, aarch64-dynamic or android)
endif

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wundef -Wcast-qual -Wpointer-arith -Wformat=2 -Wwrite-strings \
        -Wstrict-prototypes -Wmissing-prototypes -Wswitch-enum -Wconversion -Wno-sign-conversion \
        $(if $(findstring clang,$(notdir $(CC))),,-Wno-format-truncation)
ifneq ($(WERROR),)
  WARN += -Werror
endif

# (-g1: files, lines and functions, for profiles and backtraces; MODE=debug adds variables)
OPT_release := -O2 -g1
# A phone's program has no function that nobody calls, and what waits for people, sockets or kernels is small rather than fast.
ifneq ($(TARGET),host)
  OPT_release += -ffunction-sections -fdata-sections
  TARGET_LDFLAGS += -Wl,--gc-sections
endif
# A static program has no tables for unwinding either: nothing reads them there (a profile uses -g1).
ifeq ($(TARGET),aarch64)
  OPT_release += -fno-unwind-tables -fno-asynchronous-unwind-tables
endif
# (What begins so is small, but for what every token of an answer or a text passes.)
SMALL := api/ arch/ bundle/ cli/ format/ grammar/schema model/ program/ server/ toolcall/
NOT_SMALL := model/sample model/vocab/
OPT_debug := -O0 -g3 -DFY_ARENA_BLOCK=512
OPT_asan := -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -DFY_ARENA_BLOCK=512
OPT_tsan := -O1 -g1 -fsanitize=thread -fno-omit-frame-pointer
OPT_fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
ifeq ($(OPT_$(MODE)),)
  $(error MODE=$(MODE) is unknown: release, debug, asan, tsan or fuzz)
endif
ifeq ($(MODE),fuzz)
  CC := clang
endif

LANG_CFLAGS := -std=c11 -D_GNU_SOURCE -ffp-contract=off -fno-math-errno -pthread $(WARN)
PATH_CFLAGS := $(TARGET_CFLAGS) $(DEP_CFLAGS) -I. -Iruntime -Iconvert -Iquantize $(CFLAGS)
ALL_CFLAGS := $(LANG_CFLAGS) $(OPT_$(MODE)) $(PATH_CFLAGS)
ALL_LDFLAGS := -pthread $(OPT_$(MODE)) $(TARGET_LDFLAGS) $(LDFLAGS)

# --- sources ---------------------------------------------------------------------------------------------------

RT_DIRS := base grammar format kernels kernels/scalar arch model model/vocab model/template backend bundle toolcall
# A static program cannot load libraries.
ifneq ($(TARGET),aarch64)
  RT_DIRS += backend/qnn backend/opencl
endif
ifeq ($(MACHINE),x86_64)
  RT_DIRS += kernels/x86
else ifeq ($(MACHINE),aarch64)
  RT_DIRS += kernels/arm
endif
RT_SRCS := $(sort $(foreach d,$(RT_DIRS),$(wildcard runtime/$(d)/*.c)))
API_SRCS := $(sort $(wildcard runtime/api/*.c))
LIB_SRCS := $(RT_SRCS) $(API_SRCS) $(sort $(foreach d,cli cli/chat cli/measure cli/serve server program,$(wildcard runtime/$(d)/*.c)))
LIB_SRCS := $(filter-out runtime/program/main.c,$(LIB_SRCS))
ifeq ($(TARGET),host)
  LIB_SRCS := $(filter-out runtime/base/hash_own.c runtime/cli/chat/chat_line_plain.c,$(LIB_SRCS))
  TOOL_DIRS := convert/source convert/tokenizer convert/write convert/look convert/hub quantize quantize/policy \
               workspace/data workspace/farm workspace/npu workspace/compile workspace/pack workspace/phone
  LIB_SRCS += $(sort $(foreach d,$(TOOL_DIRS),$(wildcard $(d)/*.c)))
else
  LIB_SRCS := $(filter-out runtime/base/hash_openssl.c runtime/cli/chat/chat_line_editline.c,$(LIB_SRCS))
endif
LIB_OBJS := $(LIB_SRCS:%.c=$B/%.o) $B/chat_builtin.o $B/server_page.o
ifneq ($(TARGET),aarch64)
  LIB_OBJS += $B/opencl_source.o
endif
ifneq ($(TARGET),host)
beginning = $(patsubst %,$B/runtime/%,$(addsuffix %,$(1)))
$(filter-out $(call beginning,$(NOT_SMALL)),$(filter $(call beginning,$(SMALL)),$(LIB_OBJS))): ALL_CFLAGS += $(if $(filter release,$(MODE)),-Os)
endif
ifeq ($(TARGET),host)
  DATA_FILES := $(sort $(wildcard workspace/data/*.json workspace/data/recipes/*.json))
  LIB_OBJS += $B/workspace/data_array.o
endif
LIB := $B/libferry.a

UNIT_SRCS := $(sort $(wildcard tests/unit/*/test_*.c) $(wildcard tests/unit/*/*/test_*.c))
UNITS := $(UNIT_SRCS:%.c=$B/%)
FUZZ_SRCS := $(sort $(wildcard tests/fuzz/fuzz_*.c))
REPLAYS := $(FUZZ_SRCS:tests/fuzz/%.c=$B/tests/replay/%)

# --- build -----------------------------------------------------------------------------------------------------

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.PRECIOUS: $B/%.o
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$(2)';)

## all: the program (host: build/ferry, with the reference library for the NPU)
.PHONY: all
all: $B/ferry
ifeq ($(TARGET)$(MODE),hostrelease)
all: build/ferry qnnref
build/ferry: $B/ferry
	$(Q)cp -f $< $@
endif

# A stamp that changes with the flags, so that objects never mix them.
FLAGS_NOW := $(CC) $(ALL_CFLAGS) | $(ALL_LDFLAGS)
$B/flags: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' > $@
FORCE:

# The suffix of a file picks its instruction set. Nothing else does.
%_avx2.o: ISA_FLAGS := -mavx2 -mfma -mf16c
%_avxvnni.o: ISA_FLAGS := -mavx2 -mfma -mf16c -mavxvnni
%_avx512.o: ISA_FLAGS := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
# Their lanes become vectors.
$B/workspace/compile/qweights.o: ISA_FLAGS := -O3
$B/runtime/backend/wkv.o: ISA_FLAGS := -O3
$B/runtime/kernels/scalar/quants_more_scalar.o: ISA_FLAGS := -O3
# (Tuned for latency-bound cores: llvm-mca gives half the cycles per tile on Cortex-A55.)
%_dotprod.o: ISA_FLAGS := -march=armv8.2-a+dotprod -mtune=cortex-a76
%_i8mm.o: ISA_FLAGS := -march=armv8.2-a+dotprod+i8mm

$B/%.o: %.c $B/flags
	$(Q)mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(ALL_CFLAGS) $(ISA_FLAGS) -MMD -MP -c -o $@ $<

# The chips and recipes of workspace/data, compiled in. The directories are prerequisites so that removed files are noticed.
$B/workspace/data_array.c: scripts/embed.sh $(DATA_FILES) workspace/data workspace/data/recipes
	$(Q)mkdir -p $(@D)
	$(call say,EMBED,$@)scripts/embed.sh workspace/data $(DATA_FILES) > $@

$B/workspace/data_array.o: $B/workspace/data_array.c $B/flags
	$(call say,CC,$@)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# The chat templates by name, compiled in.
$B/chat_builtin.c: scripts/embed_templates.sh runtime/model/template/chat_builtin.jinja
	$(Q)mkdir -p $(@D)
	$(call say,EMBED,$@)scripts/embed_templates.sh runtime/model/template/chat_builtin.jinja > $@

$B/chat_builtin.o $B/pic/chat_builtin.o: $B/chat_builtin.c $B/flags
	$(Q)mkdir -p $(@D)
	$(call say,CC,$@)$(CC) $(ALL_CFLAGS) $(if $(findstring /pic/,$@),$(PIC_FLAGS)) -MMD -MP -c -o $@ $<

# The kernels for a GPU's driver to compile, compiled in.
$B/opencl_source.c: scripts/embed_kernels.sh runtime/backend/opencl/opencl_kernels.cl
	$(Q)mkdir -p $(@D)
	$(call say,EMBED,$@)scripts/embed_kernels.sh runtime/backend/opencl/opencl_kernels.cl > $@

$B/opencl_source.o: $B/opencl_source.c $B/flags
	$(call say,CC,$@)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# The page of the server, compiled in.
$B/server_page.c: scripts/embed_page.sh runtime/server/page.html
	$(Q)mkdir -p $(@D)
	$(call say,EMBED,$@)scripts/embed_page.sh runtime/server/page.html > $@

$B/server_page.o: $B/server_page.c $B/flags
	$(call say,CC,$@)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(LIB): $(LIB_OBJS)
	$(Q)rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $^

$B/ferry: $B/runtime/program/main.o $(LIB)
	$(call say,LD,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(DEP_LIBS) -lm

# --- the library for other programs (runtime/ferry.h) --------------------------------------------------------------

# Separate objects: position independent, without assertions; only what ferry.h declares is visible.
PIC_FLAGS := -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -DNDEBUG
API_OBJS := $(API_SRCS:%.c=$B/pic/%.o)
ENGINE_SRCS := $(filter-out runtime/base/hash_openssl.c runtime/bundle/% runtime/kernels/kernel_vectors.c,$(RT_SRCS))
ENGINE := $B/pic/engine.a
API_LIBS := $B/lib/libferry.so.0 $B/lib/libferry.a

## lib: libferry, shared and static
.PHONY: lib
lib: $(API_LIBS)

$B/pic/%.o: %.c $B/flags
	$(Q)mkdir -p $(@D)
	$(call say,CC,$@)$(CC) $(ALL_CFLAGS) $(PIC_FLAGS) $(ISA_FLAGS) -MMD -MP -c -o $@ $<

# The linker takes what the public functions need.
$(ENGINE): $(ENGINE_SRCS:%.c=$B/pic/%.o) $B/pic/chat_builtin.o
	$(Q)rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $^

$B/lib/libferry.so.0: $(API_OBJS) $(ENGINE) runtime/ferry.map
	$(Q)mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(filter-out $(STATIC_LDFLAGS),$(ALL_LDFLAGS)) -shared -Wl,-soname,$(@F) -Wl,-z,defs -Wl,--gc-sections \
	  -Wl,--version-script=runtime/ferry.map -o $@ $(API_OBJS) $(ENGINE) -Wl,--as-needed $(DEP_LIBS) -lm

# One object in which everything else is local: our names cannot clash with the program's.
$B/lib/libferry.a: $(API_OBJS) $(ENGINE)
	$(Q)mkdir -p $(@D)
	$(Q)rm -f $@
	$(Q)$(CC) -nostdlib -r -o $B/pic/ferry.o $^
	$(Q)$(OBJCOPY) --localize-hidden $B/pic/ferry.o
	$(call say,AR,$@)$(AR) rcs $@ $B/pic/ferry.o

# --- the reference library for the NPU (runtime/qnnref) ------------------------------------------------------------

# A stand-in for the vendor's libraries with the same C interface, and the tests' libcdsprpc.so. Always dynamic. Sanitized
# ones leave the sanitizer's symbols to the program.
QNN_LIBS := $(addprefix $B/qnn/,libQnnRef.so libQnnRefSystem.so libcdsprpc.so)
QNN_OWN := runtime/qnnref/ref_system.c runtime/qnnref/ref_rpcmem.c
QNN_SRCS := $(filter-out $(QNN_OWN),$(sort $(wildcard runtime/qnnref/*.c)))
QNN_OBJS := $(patsubst %.c,$B/pic/%.o,$(QNN_SRCS) runtime/base/hash_own.c runtime/base/err.c \
            runtime/kernels/scalar/elementwise_scalar.c)
QNN_LINK = $(CC) $(filter-out $(STATIC_LDFLAGS) -pie,$(ALL_LDFLAGS)) -shared -Wl,-soname,$(@F) -Wl,--gc-sections -o $@

$B/pic/runtime/qnnref/ref_ops_linear.o: ISA_FLAGS := -O3

$B/qnn/libQnnRef.so: $(QNN_OBJS)
	$(Q)mkdir -p $(@D)
	$(call say,LD,$@)$(QNN_LINK) $^

$B/qnn/libQnnRefSystem.so: $(filter-out %/ref_provider.o,$(QNN_OBJS)) $B/pic/runtime/qnnref/ref_system.o
	$(Q)mkdir -p $(@D)
	$(call say,LD,$@)$(QNN_LINK) $^

$B/qnn/libcdsprpc.so: $B/pic/runtime/qnnref/ref_rpcmem.o
	$(Q)mkdir -p $(@D)
	$(call say,LD,$@)$(QNN_LINK) $^

## qnnref: the reference library for the NPU
.PHONY: qnnref
qnnref: $(QNN_LIBS)

$(filter $B/tests/unit/qnnref/% %/test_qnn_child %/test_qnn_product %/test_qemit %/test_graph_qnn %/test_qnn_metadata %/test_qnn_faults,$(UNITS)): | $(QNN_LIBS)

# A stand-in for a GPU's driver, in a directory that LD_LIBRARY_PATH can name.
FAKE_OPENCL := $B/tests/unit/backend/libOpenCL.so.1
$(FAKE_OPENCL): $B/pic/tests/unit/backend/fake_opencl.o
	$(Q)mkdir -p $(@D)
	$(call say,LD,$@)$(QNN_LINK) $^

$B/tests/unit/backend/test_opencl_gpu: | $(FAKE_OPENCL)

# The reader of its containers is fuzzed with the program's own objects around it.
$B/tests/replay/fuzz_qnn_blob $B/fuzz/fuzz_qnn_blob: $(QNN_SRCS:%.c=$B/%.o) $B/runtime/kernels/scalar/elementwise_scalar.o

# The checks of kcheck, of which unit tests and benches take data.
KCHECKS := $B/tests/kcheck/checks.a
$(KCHECKS): $(patsubst %.c,$B/%.o,$(sort $(wildcard tests/kcheck/kernel_check*.c)))
	$(Q)rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $^

$B/tests/unit/%: $B/tests/unit/%.o $(KCHECKS) $(LIB)
	$(call say,LD,$@)$(CC) $(filter-out $(STATIC_LDFLAGS),$(ALL_LDFLAGS)) -o $@ $^ $(CHECK_LIBS) $(CHECK_DEP_LIBS) -lm

$B/tests/replay/%: $B/tests/fuzz/%.o $B/tests/fuzz/replay_main.o $(LIB)
	$(Q)mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(DEP_LIBS) -lm

# The kernels for instructions that this machine may lack, compiled again over an emulation (SIMDe); their names get a
# suffix. The same objects serve every MODE: kcheck guards their buffers, and optimizing or sanitizing SIMDe's code takes up
# to a minute a file.
ifeq ($(MACHINE),x86_64)
EMULATED_DIR := build/$(TARGET)/emulated
EMULATED := $(patsubst %.c,$(EMULATED_DIR)/%.o,$(sort $(wildcard runtime/kernels/x86/*_avx512.c runtime/kernels/x86/*_avxvnni.c)))
EMULATED_CC := $(CC) $(LANG_CFLAGS) -O1 $(PATH_CFLAGS) -mavx2 -mfma -mf16c -Wno-psabi \
               -include tests/kcheck/emulate_avx512.h

$(EMULATED_DIR)/flags: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)printf '%s\n' '$(subst ','\'',$(EMULATED_CC))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(EMULATED_CC))' > $@

$(EMULATED_DIR)/%.o: %.c $(EMULATED_DIR)/flags
	$(Q)mkdir -p $(@D)
	$(call say,CC,$@)$(EMULATED_CC) -MMD -MP -c -o $@ $<
	$(Q)nm -g --defined-only $@ | awk '{ print $$3, $$3 "_emulated" }' > $@.names
	$(Q)$(OBJCOPY) --redefine-syms=$@.names $@
endif

$B/tests/kcheck/kcheck: $(patsubst %.c,$B/%.o,$(filter-out tests/kcheck/kernel_check%,$(sort $(wildcard tests/kcheck/*.c)))) \
                        $(EMULATED) $(KCHECKS) $(LIB)
	$(call say,LD,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(DEP_LIBS) -lm

# --- tests -----------------------------------------------------------------------------------------------------

# Items for tests/run.sh: each is a command that prints TAP.
REPLAY_ITEMS = $(foreach r,$(REPLAYS),"$(r) tests/fuzz/corpus/$(patsubst fuzz_%,%,$(notdir $(r)))")
CHECK_ITEMS = scripts/check_source.sh $(UNITS) $(REPLAY_ITEMS) $B/tests/kcheck/kcheck \
              $(sort $(wildcard tests/cli/*.sh))
BENCH_TOOLS = $(addprefix $B/tests/bench/,limits make_gguf widen_gguf sample_bench engine_bench grammar_bench serve_load)
PROGRAMS = $(UNITS) $(REPLAYS) $B/tests/kcheck/kcheck $B/tests/bench/make_checkpoint \
           $(BENCH_TOOLS) $(addprefix $B/tests/e2e/,pty_drive hub_server soak_clients) $(addprefix $B/tests/e2e/,compare_graphs session_logits qnn_driver) $B/tests/phone/phone_adbd $B/tests/phone/adb_try

## programs: the test programs of this TARGET and MODE
.PHONY: programs
programs: $(PROGRAMS) $(QNN_LIBS) $(FAKE_OPENCL) $B/ferry

## check: the tests that take under a minute
.PHONY: check
check: all programs
	@tests/run.sh $(CHECK_ITEMS)

# One more than there are cores: many tests wait for a process of their own, such as the emulated phone.
TEST_JOBS ?= $(shell echo $$(($$(nproc) + 1)))
ASAN_UNITS = $(subst $B/,build/host/asan/,$(UNITS)) $(subst $B/,build/host/asan/,$(REPLAY_ITEMS)) \
             build/host/asan/tests/kcheck/kcheck
TSAN_UNITS = $(patsubst %,build/host/tsan/tests/unit/%,base/test_thread format/test_gguf_write model/test_session \
               model/test_thread_timing model/test_moe model/test_expert_cache backend/test_backend_cpu backend/test_attention backend/test_graph_cache backend/test_qnn_lib backend/test_qnn_power api/test_api \
               quantize/test_requantize)
QEMU_LD = qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=/usr/aarch64-linux-gnu/lib:build/sysroot/usr/lib/aarch64-linux-gnu
ARM_UNITS = $(foreach u,$(ARM_UNIT_NAMES),"$(QEMU_LD) build/aarch64/release/tests/unit/$(u)")
# `max` has every feature and runs every kernel in full. The other CPUs show that a CPU picks only kernels whose
# instructions it has, with the same results: cortex-a53, which has plain NEON, for every operation; the CPUs between for
# the products, the only operations that use more (kernel_list.h).
ARM_CPUS = max max,sve=off cortex-a76 neoverse-n1 cortex-a53
# In parts where it takes minutes.
ARM_KCHECK = $(foreach part,1/4 2/4 3/4 4/4,"qemu-aarch64 -cpu max build/aarch64/release/tests/kcheck/kcheck --part $(part)") \
             $(foreach c,$(filter-out max,$(ARM_CPUS)),"qemu-aarch64 -cpu $(c) build/aarch64/release/tests/kcheck/kcheck \
             --picked $(if $(filter-out cortex-a53,$(c)),--kernel matmul)")
MASKED = "FY_CPU_MASK=0 $B/tests/kcheck/kcheck" $(foreach u,$(filter %/kernels/%,$(UNITS)),"FY_CPU_MASK=0 $(u)")
ARM_UNIT_NAMES = base/test_hash bundle/test_seal base/test_json base/test_thread \
                 kernels/test_encode_golden kernels/test_decode_golden kernels/test_row kernels/test_row_error kernels/test_kernels kernels/test_kernel_vectors kernels/test_activation model/test_moe model/test_forward \
                 format/test_gguf model/test_sample model/test_sample_math model/test_sample_scan vocab/test_vocab \
                 qnnref/test_ref_abi qnnref/test_ref_graph qnnref/test_ref_rules
# What loads the reference library on emulated arm64.
ARM_DYNAMIC = TARGET=aarch64-dynamic all qnnref build/aarch64-dynamic/release/tests/e2e/session_logits
TEST_SCRIPTS = $(filter-out tests/phone/phone.sh,$(sort $(wildcard tests/golden/*.sh tests/e2e/*.sh tests/phone/*.sh)))

# Long tests start first, the longest first, so that no core waits at the end.
LONG = $(addprefix tests/,phone/selftest.sh phone/serve.sh golden/demo_models.sh e2e/compilers.sh phone/device.sh phone/push.sh phone/models.sh phone/chat.sh \
       cli/docs.sh phone/npu.sh phone/adb_client.sh e2e/device_build.sh phone/doctor.sh e2e/workspace.sh phone/up.sh \
       e2e/same_everywhere.sh e2e/slurm.sh cli/selftest.sh e2e/memory.sh golden/families.sh e2e/chat.sh) \
       build/host/asan/tests/kcheck/kcheck $B/tests/kcheck/kcheck

## test: everything
.PHONY: test
test: all programs lib
	@$(MAKE) --no-print-directory MODE=asan programs
	@$(MAKE) --no-print-directory MODE=tsan $(TSAN_UNITS)
	@$(MAKE) --no-print-directory TARGET=aarch64 all kcheck $(patsubst %,build/aarch64/release/tests/unit/%,$(ARM_UNIT_NAMES))
	@$(MAKE) --no-print-directory $(ARM_DYNAMIC)
	@tests/run.sh -j $(TEST_JOBS) $(ARM_KCHECK) $(LONG) $(filter-out $(LONG),$(TEST_SCRIPTS) $(ARM_UNITS) $(TSAN_UNITS) \
	  $(ASAN_UNITS) $(CHECK_ITEMS) $(MASKED))

# Tests that search: their short form is part of `make test`.
SOAKS = tests/cli/qnnref.sh tests/e2e/serve_soak.sh tests/e2e/resume.sh tests/e2e/quantize_resume.sh tests/e2e/chunk.sh tests/e2e/backend_qnn.sh tests/e2e/qnn_tokens.sh tests/e2e/canary.sh tests/phone/adb_client.sh tests/phone/push.sh \
        $B/tests/unit/backend/test_qnn_faults $B/tests/unit/grammar/test_schema_answers

## soak: the tests that search, with all their rounds (make test runs a few of each)
.PHONY: soak
soak: all programs
	@$(MAKE) --no-print-directory TARGET=aarch64 all
	@$(MAKE) --no-print-directory $(ARM_DYNAMIC)
	@FERRY_SOAK=1 TEST_TIMEOUT=3600 tests/run.sh $(SOAKS)

.PHONY: kcheck
kcheck: $B/tests/kcheck/kcheck

$B/tests/bench/%: $B/tests/bench/%.o $(KCHECKS) $(LIB)
	$(call say,LD,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(DEP_LIBS) -lm

$B/tests/e2e/compare_graphs $B/tests/e2e/session_logits: %: %.o $(LIB)
	$(call say,LD,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(DEP_LIBS) -lm

# Nothing of the program is in it.
$B/tests/e2e/qnn_driver: $B/tests/e2e/qnn_driver.o
	$(call say,LD,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ -ljansson -lm

$B/tests/e2e/%: $B/tests/e2e/%.o
	$(call say,LD,$@)$(CC) $(ALL_LDFLAGS) -o $@ $<

$B/tests/phone/phone_adbd: $(patsubst %.c,$B/%.o,$(sort $(wildcard tests/phone/phone_*.c)))
	$(call say,LD,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^

$B/tests/phone/adb_try: $B/tests/phone/adb_try.o $(LIB)
	$(call say,LD,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(DEP_LIBS) -lm

## counts: the numbers of things that the documentation has (tests/cli/counts.sh holds it to them)
.PHONY: counts
counts:
	@scripts/counts $(or $(FERRY),build/ferry)

## demo: checkpoint to tale, on this machine and on emulated arm64
.PHONY: demo
demo: all
	@$(MAKE) --no-print-directory TARGET=aarch64
	@scripts/demo_steps.sh

## bench: the engine against its bars, a peer's with FERRY_PEER=DIR; ROWS="..." chooses (docs/measuring.md)
.PHONY: bench
bench: all kcheck $(BENCH_TOOLS)
	@ROWS='$(ROWS)' BUILD='$B' tests/bench/run.sh

## bench-server: the server against its bars, and against llama-server with FERRY_PEER_SERVER=COMMAND; ROWS="..." (docs/measuring.md)
.PHONY: bench-server
bench-server: all $(addprefix $B/tests/bench/,serve_load make_gguf engine_bench limits)
	@ROWS='$(ROWS)' BUILD='$B' tests/bench/server.sh

## bench-grammar: masks of structured output (FERRY_BENCH_VOCABULARY=DIR: with the tokenizer of a checkpoint)
.PHONY: bench-grammar
bench-grammar: all $B/tests/bench/grammar_bench
	$(Q)if [ -n "$$FERRY_BENCH_VOCABULARY" ]; then \
	  build/ferry convert --vocab-only -q -o $B/tests/bench/vocabulary.gguf "$$FERRY_BENCH_VOCABULARY" && \
	  $B/tests/bench/grammar_bench $B/tests/bench/vocabulary.gguf; \
	else $B/tests/bench/grammar_bench; fi

## bench-speculation: what guesses bring, against their bars (docs/speculation.md)
.PHONY: bench-speculation
bench-speculation: all $(addprefix $B/tests/bench/,make_gguf widen_gguf)
	@BUILD='$B' tests/bench/speculation.sh

## bench-limits: how fast this machine reads memory and multiplies
.PHONY: bench-limits
bench-limits: $B/tests/bench/limits
	@$<

## bench-convert: conversions against copying the same files (FERRY_BENCH_VOCABULARY=DIR for the vocabulary)
.PHONY: bench-convert
bench-convert: all $B/tests/bench/make_checkpoint
	@BUILD='$B' tests/bench/convert.sh

## bench-quantize: quantizing against the peer's own (FERRY_PEER=DIR), and the encoders alone
.PHONY: bench-quantize
bench-quantize: all kcheck $B/tests/bench/make_gguf
	@BUILD='$B' tests/bench/quantize.sh

## bench-chunk: cutting a model for an NPU, and joining it, against a flushed copy
.PHONY: bench-chunk
bench-chunk: all $B/tests/bench/make_gguf
	@BUILD='$B' tests/bench/chunk.sh

## bench-npu: what ferry itself costs in compiling for an NPU, time and memory
.PHONY: bench-npu
bench-npu: all $B/tests/bench/make_gguf $B/tests/bench/noop/libQnnHtp.so
	@BUILD='$B' tests/bench/npu.sh

$B/tests/bench/noop/libQnnHtp.so: $B/pic/tests/bench/qnn_noop.o
	$(Q)mkdir -p $(@D)
	$(call say,LD,$@)$(QNN_LINK) $^

## bench-push: push against adb's own, on the emulated phone with a link of 40 MB/s
.PHONY: bench-push
bench-push: all $B/tests/bench/make_gguf $B/tests/phone/phone_adbd $B/tests/phone/adb_try
	@$(MAKE) --no-print-directory TARGET=aarch64
	@tests/bench/push.sh

# A QEMU plugin, and the device build with function names.
$B/tests/bench/count_instructions.so: tests/bench/count_instructions.c $B/flags
	$(Q)mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(ALL_CFLAGS) -fPIC -shared -fvisibility=hidden -o $@ $<

$B/tests/bench/ferry_named: $B/runtime/program/main.o $(LIB)
	$(Q)mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(filter-out -s,$(ALL_LDFLAGS)) -o $@ $^ $(DEP_LIBS) -lm

## bench-instructions: arm64 instructions per token under QEMU (against a peer with FERRY_PEER_ARM64=DIR)
.PHONY: bench-instructions
bench-instructions: all $B/tests/bench/count_instructions.so
	@$(MAKE) --no-print-directory TARGET=aarch64 build/aarch64/release/tests/bench/ferry_named
	@tests/bench/instructions.sh

## perf-docs: docs/perf from the device build's hot loops (needs llvm-mca of llvm-19)
.PHONY: perf-docs
perf-docs:
	@$(MAKE) --no-print-directory TARGET=aarch64
	@tests/bench/arm_loops.sh > docs/perf/arm64.md.part && mv docs/perf/arm64.md.part docs/perf/arm64.md

# --- fuzzing (clang's libFuzzer; the corpora are replayed by `make check`) -----------------------------------------

FUZZ_SECONDS ?= 600
FUZZERS := $(FUZZ_SRCS:tests/fuzz/%.c=$B/fuzz/%)

$B/fuzz/%: $B/tests/fuzz/%.o $(LIB)
	$(Q)mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(DEP_LIBS) -lm

.PHONY: fuzzers
fuzzers: $(FUZZERS)

## fuzz: FUZZ_SECONDS of fuzzing per parser (default 600), or of one: FUZZ=gguf
.PHONY: fuzz
fuzz:
	@$(MAKE) --no-print-directory MODE=fuzz fuzzers
	@tests/fuzz/run.sh $(FUZZ_SECONDS) $(or $(FUZZ),$(FUZZ_SRCS:tests/fuzz/fuzz_%.c=%))

# --- install ---------------------------------------------------------------------------------------------------

VERSION = $(shell sed -n 's/^.define FERRY_VERSION "\([^"]*\)".*/\1/p' runtime/base/process.h)
VERBS = $(shell build/ferry --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p')

## install-lib: libferry with its header and pkg-config file; PREFIX, LIBDIR, DESTDIR
.PHONY: install-lib
install-lib: lib
	install -D -m 644 runtime/ferry.h $(DESTDIR)$(PREFIX)/include/ferry.h
	install -D -m 644 $B/lib/libferry.so.0 $(DESTDIR)$(LIBDIR)/libferry.so.0
	ln -sf libferry.so.0 $(DESTDIR)$(LIBDIR)/libferry.so
	install -m 644 $B/lib/libferry.a $(DESTDIR)$(LIBDIR)/libferry.a
	mkdir -p $(DESTDIR)$(LIBDIR)/pkgconfig
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' runtime/ferry.pc.in \
	  > $(DESTDIR)$(LIBDIR)/pkgconfig/ferry.pc

## install: program, libferry, NPU reference library, device build (when made), data, man pages, completion; PREFIX, LIBDIR, DESTDIR
.PHONY: install
install: all install-lib
	install -D -m 755 build/ferry $(DESTDIR)$(PREFIX)/bin/ferry
	mkdir -p $(DESTDIR)$(LIBDIR)/ferry
	install -m 755 build/host/release/qnn/libQnnRef.so build/host/release/qnn/libQnnRefSystem.so $(DESTDIR)$(LIBDIR)/ferry/
	if [ -f build/aarch64/release/ferry ]; then \
	  install -D -m 755 build/aarch64/release/ferry $(DESTDIR)$(PREFIX)/libexec/ferry/aarch64/ferry; fi
	mkdir -p $(DESTDIR)$(PREFIX)/share/ferry/recipes
	install -m 644 workspace/data/*.json $(DESTDIR)$(PREFIX)/share/ferry/
	install -m 644 workspace/data/recipes/*.json $(DESTDIR)$(PREFIX)/share/ferry/recipes/
	mkdir -p build/man
	build/ferry man > build/man/ferry.1
	for v in $(VERBS); do build/ferry man $$v > build/man/ferry-$$v.1 || exit 1; done
	mkdir -p $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 build/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	build/ferry completion bash > build/man/ferry.bash
	build/ferry completion zsh > build/man/_ferry
	build/ferry completion fish > build/man/ferry.fish
	install -D -m 644 build/man/ferry.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/ferry
	install -D -m 644 build/man/_ferry $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_ferry
	install -D -m 644 build/man/ferry.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/ferry.fish

## clean: remove what was built (the sysroots stay)
.PHONY: clean
clean:
	$(Q)rm -rf build/host build/aarch64 build/aarch64-dynamic build/android build/android-test build/clang build/fuzz build/man build/test-logs build/ferry

## help: this list
.PHONY: help
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST) | sort | sed 's/^\([^:]*\): /  make \1|/' | column -t -s '|' 2>/dev/null || sed -n 's/^## /  make /p' $(MAKEFILE_LIST)

-include $(shell find $B $(EMULATED_DIR) -name '*.d' 2>/dev/null)

/*
 * A QEMU plugin that counts each virtual processor's instructions, and says how many there were where the guest has
 * a mark: an instruction that does nothing, which no compiler makes (load mark). See boot --cpu.
 *
 * The plugin interface of QEMU 4.2 and newer, of which Debian ships no header.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t qemu_plugin_id_t;
typedef void (*translated)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*executed)(unsigned int processor, void *data);
extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, translated);
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, executed, int registers, void *data);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, executed, int registers, void *data);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

/* nopl 0x6b72616d(%rax) */
static const unsigned char MARK[] = { 0x0f, 0x1f, 0x80, 'm', 'a', 'r', 'k' };
static uint64_t counts[64];

static void count(unsigned int processor, void *instructions)
{
	counts[processor] += (uintptr_t)instructions;
}

static void mark(unsigned int processor, void *unused)
{
	fprintf(stderr, "\nMARK %" PRIu64 " %" PRIu64 "\n", counts[0], counts[1]);
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
	size_t n = qemu_plugin_tb_n_insns(block);

	qemu_plugin_register_vcpu_tb_exec_cb(block, count, 0, (void *)n);
	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *one = qemu_plugin_tb_get_insn(block, i);

		if (qemu_plugin_insn_size(one) == sizeof(MARK) && !memcmp(qemu_plugin_insn_data(one), MARK, sizeof(MARK)))
			qemu_plugin_register_vcpu_insn_exec_cb(one, mark, 0, NULL);
	}
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	return 0;
}

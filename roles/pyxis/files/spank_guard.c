/* SPDX-License-Identifier: GPL-3.0-or-later
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 *
 * A SPANK plugin after Pyxis in plugstack.conf: a task that asks for a container and is still in the mount namespace of
 * its node does not start. With the argument `alone`, on a node whose Pyxis does not fit, it takes Pyxis' two options
 * that ask for one. With `unless=FILE` it does so only on a node whose FILE is missing or requires no plugin, and nothing
 * on others: for a plugstack.conf that nodes share, some of which have started since and do not have a part of their own
 * yet. It also prints what our importer has left for the user, as Pyxis shows an importer's words only where it fails.
 * What it uses of Slurm is the same from 22.05 to 26.05 (spank.h), so it needs no headers; Slurm compares only RELEASE,
 * 0x160500 for 22.05.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct spank_option {
	char *name, *arginfo, *usage;
	int has_arg, val;
	int (*callback)(int val, const char *argument, int remote);
};
#define JOB_UID 0 /* S_JOB_UID of enum spank_item */
#define JOB_NODEID 5 /* S_JOB_NODEID */
#define JOB_ENV 10 /* S_JOB_ENV */
extern int spank_remote(void *spank);
extern int spank_option_register(void *spank, struct spank_option *option);
extern int spank_get_item(void *spank, int item, ...);
extern int spank_getenv(void *spank, const char *name, char *value, int size);
extern void slurm_spank_log(const char *format, ...);
extern void slurm_error(const char *format, ...);

/* The name is a part of how srun passes an option on: it has to be that of Pyxis. */
const char plugin_name[] = "pyxis", plugin_type[] = "spank";
const unsigned int plugin_version = RELEASE, spank_plugin_version = 1;

static int alone, asked, off, directory = -1;
static const char *runtime;
static struct stat host;

static int on_option(int val, const char *argument, int remote)
{
	(void)val, (void)argument, (void)remote;
	asked = 1;
	return 0;
}

static struct spank_option options[] = {
	{ "container-image", "IMAGE", "not on this node", 1, 0, on_option },
	{ "container-name", "NAME", "not on this node", 1, 0, on_option },
};

/* An empty file, of a full disk or by hand, loads neither Pyxis nor a guard. */
static int requires_plugin(const char *path)
{
	char line[4096];
	int found = 0;
	FILE *file = fopen(path, "re");

	if (file == NULL)
		return 0;
	while (!found && fgets(line, sizeof(line), file) != NULL)
		found = strncmp(line, "required ", 9) == 0;
	fclose(file);
	return found;
}

int slurm_spank_init(void *spank, int count, char **words)
{
	if (spank_remote(spank) != 1)
		return 0;
	for (int i = 0; i < count; ++i) {
		if (strcmp(words[i], "alone") == 0)
			alone = 1;
		else if (strncmp(words[i], "unless=", 7) == 0)
			*(requires_plugin(words[i] + 7) ? &off : &alone) = 1;
		else if (strncmp(words[i], "runtime_path=", 13) == 0)
			/* Without it Pyxis drains the node of a batch job. */
			mkdir(runtime = words[i] + 13, 0755);
	}
	if (alone && (spank_option_register(spank, options) || spank_option_register(spank, options + 1)))
		return -1;
	return 0;
}

/* The variable that names the step's files, as the importer reads it. */
static unsigned long number(void *spank, const char *name)
{
	char value[32];

	return spank_getenv(spank, name, value, sizeof(value)) == 0 ? strtoul(value, NULL, 10) : 0;
}

/* The importer runs in Pyxis' task_init, whose end is inside the container: the note is reached by the descriptor of its
 * directory, with the rights of the user, to whom it belongs. The task that removes it prints it on the first node.
 */
static void print_note(void *spank)
{
	char name[64], note[301];
	uint32_t node = 0;
	ssize_t length;
	int file;

	snprintf(name, sizeof(name), "%lu.%lu.note", number(spank, "SLURM_JOB_ID"), number(spank, "SLURM_STEP_ID"));
	file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file < 0)
		return;
	length = read(file, note, sizeof(note) - 1);
	close(file);
	if (unlinkat(directory, name, 0))
		return;
	for (ssize_t i = 0; i < length; ++i)
		if (note[i] < ' ' || note[i] > '~')
			length = i;
	if (length <= 0 || spank_get_item(spank, JOB_NODEID, &node) || node != 0)
		return;
	note[length] = '\0';
	slurm_spank_log("%s", note);
}

int slurm_spank_task_init_privileged(void *spank, int count, char **words)
{
	char path[4096];
	uid_t user;

	(void)count, (void)words;
	if (runtime != NULL && spank_get_item(spank, JOB_UID, &user) == 0 &&
	    snprintf(path, sizeof(path), "%s/%u", runtime, user) < (int)sizeof(path))
		directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return stat("/proc/self/ns/mnt", &host);
}

int slurm_spank_task_init(void *spank, int count, char **words)
{
	static const char *variables[] = { "PYXIS_CONTAINER_IMAGE=", "PYXIS_CONTAINER_NAME=" };
	struct stat now;
	char **env = NULL;

	(void)count, (void)words;
	if (off)
		return 0;
	if (directory >= 0)
		print_note(spank);
	if (stat("/proc/self/ns/mnt", &now) == 0 && now.st_ino != host.st_ino)
		return 0;
	if (spank_get_item(spank, JOB_ENV, &env) || env == NULL)
		return -1;
	for (; *env && !asked; ++env)
		for (int i = 0; i < 2; ++i) {
			size_t length = strlen(variables[i]);

			/* An empty one asks for nothing. */
			asked |= strncmp(*env, variables[i], length) == 0 && (*env)[length] != '\0';
		}
	if (!asked)
		return 0;
	slurm_error("container: this task asks for a container and has none, so it is not started%s",
		    alone ? ": Pyxis on this node does not fit its Slurm, or is not installed -> tell your administrator (run site.yml; "
			    "containers.yml on a Slurm that somebody else manages)" :
			    " -> see the messages of pyxis above, and --container-image or PYXIS_CONTAINER_* of the job");
	return -1;
}

// MARKER_TEXT
// Reviews the session's changes when the agent has ended its turn, and sends open findings back.
import { spawn } from "node:child_process"

const WORDS = ["WORDS"]
const OUTPUT_MAX = 65536

// Calls countersign with the event; an empty answer changes nothing.
function ask(input) {
  return new Promise((resolve) => {
    const child = spawn("countersign", WORDS, { cwd: input.cwd, stdio: ["pipe", "pipe", "ignore"] })
    let out = ""
    child.stdout.on("data", (data) => {
      if (out.length < OUTPUT_MAX) out += data
    })
    child.on("error", () => resolve({ systemMessage: "Countersign did not review: countersign is not on PATH" }))
    child.on("close", () => {
      try {
        resolve(JSON.parse(out))
      } catch {
        resolve({})
      }
    })
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(input))
  })
}

export const Countersign = async ({ client, directory }) => {
  const busy = new Set()
  const aborted = new Set()
  const show = (message) => client.tui.showToast({ body: { message, variant: "info" } }).catch(() => {})
  return {
    "chat.message": async (input, output) => {
      aborted.delete(input.sessionID)
      const texts = output.parts.filter((part) => part.type === "text")
      const prompt = texts.map((part) => part.text).join("\n").slice(0, 20000)
      const event = { hook_event_name: "chat.message", session_id: input.sessionID, cwd: directory, prompt }
      const answer = await ask(event)
      const context = answer.hookSpecificOutput?.additionalContext
      if (context && texts.length) texts[texts.length - 1].text += "\n\n" + context
      if (answer.systemMessage) await show(answer.systemMessage)
    },
    event: async ({ event }) => {
      const id = event.properties?.sessionID
      // A turn that the person stopped is not continued.
      if (event.type === "session.error" && event.properties.error?.name === "MessageAbortedError") aborted.add(id)
      if (event.type !== "session.idle" || busy.has(id) || aborted.has(id)) return
      busy.add(id)
      try {
        const session = await client.session.get({ path: { id } })
        // The session of a subagent ends before its parent's.
        if (session.data?.parentID) return
        const answer = await ask({ hook_event_name: "session.idle", session_id: id, cwd: directory })
        if (answer.systemMessage) await show(answer.systemMessage)
        if (answer.decision === "block") {
          const parts = [{ type: "text", text: answer.reason }]
          await client.session.promptAsync({ path: { id }, body: { parts } })
        }
      } finally {
        busy.delete(id)
      }
    },
  }
}
